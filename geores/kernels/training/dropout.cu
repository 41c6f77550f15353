#include "geores/kernels/training/dropout.h"

#include <type_traits>

#include "geores/kernels/cuda/device.cuh"

namespace geores::kernels {
namespace {

using namespace device;

// As many as run at once: a key costs a thread as much as two elements.
int most_blocks() { return 4 * blocks_for_sums(); }

template <int V, class A>
__global__ void drop(const A* x, A* y, int64_t size, DropoutMask mask) {
  wait_for_previous();
  using T = std::conditional_t<std::is_same_v<A, double>, double, float>;
  const auto key = mask.key();
  const T scale = static_cast<T>(mask.scale);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x * V;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V; i < size;
       i += stride) {
    T v[V];
    load_values<V>(x + i, v);
#pragma unroll
    for (int j = 0; j < V; ++j) v[j] = mask.keeps(key, i + j) ? v[j] * scale : T(0);
    store_values<V>(y + i, v);
  }
}

}  // namespace

template <class A>
void drop_elements(CudaStream stream, const A* x, A* y, int64_t size, const DropoutMask& mask) {
  if (size == 0) return;
  constexpr int most = sizeof(A) == 8 ? 1 : 16 / sizeof(A);  // double is for verification
  const auto addresses = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y);
  if (size % most == 0 && addresses % 16 == 0)
    launch(stream, {blocks_for(size / most, 1, most_blocks()), kThreads}, drop<most, A>, x, y, size,
           mask);
  else
    launch(stream, {blocks_for(size, 1, most_blocks()), kThreads}, drop<1, A>, x, y, size, mask);
  check_launch("drop_elements");
}

template void drop_elements(CudaStream, const float*, float*, int64_t, const DropoutMask&);
template void drop_elements(CudaStream, const BFloat16*, BFloat16*, int64_t, const DropoutMask&);
template void drop_elements(CudaStream, const double*, double*, int64_t, const DropoutMask&);

}  // namespace geores::kernels
