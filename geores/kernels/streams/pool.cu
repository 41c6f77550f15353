#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/streams/pool.h"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kColumnsPerBlock = 32;

// A thread for each column of each sequence: f(index, position) forward or backward along the
// sequence.
template <bool Back, class F>
__device__ inline void walk(const PoolShape& s, F&& f) {
  const auto column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= s.batch * s.width) return;
  const auto first = column / s.width * s.length * s.width + column % s.width;
#pragma unroll 8
  for (int64_t i = 0; i < s.length; ++i) {
    const auto t = Back ? s.length - 1 - i : i;
    f(first + t * s.width, t);
  }
}

template <class T>
__global__ void forward(const T* x, T* y, PoolShape s) {
  wait_for_previous();
  T sum = 0;
  walk<false>(s, [&](int64_t at, int64_t t) {
    sum += x[at];
    y[at] = sum / T(t + 1);
  });
}

template <class T>
__global__ void backward(const T* dy, T* dx, PoolShape s) {
  wait_for_previous();
  T sum = 0;
  walk<true>(s, [&](int64_t at, int64_t t) {
    sum += dy[at] / T(t + 1);
    dx[at] = sum;
  });
}

unsigned blocks(const PoolShape& s) {
  return static_cast<unsigned>((s.batch * s.width + kColumnsPerBlock - 1) / kColumnsPerBlock);
}

}  // namespace

template <class T>
void running_mean_forward(CudaStream stream, const T* x, T* y, const PoolShape& s) {
  if (s.batch * s.width == 0) return;
  launch(stream, {blocks(s), kColumnsPerBlock}, forward<T>, x, y, s);
  check_launch("running_mean_forward");
}

template <class T>
void running_mean_backward(CudaStream stream, const T* dy, T* dx, const PoolShape& s) {
  if (s.batch * s.width == 0) return;
  launch(stream, {blocks(s), kColumnsPerBlock}, backward<T>, dy, dx, s);
  check_launch("running_mean_backward");
}

#define GEORES_INSTANTIATE(T)                                                     \
  template void running_mean_forward(CudaStream, const T*, T*, const PoolShape&); \
  template void running_mean_backward(CudaStream, const T*, T*, const PoolShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
