// The steps before and after the products. The products themselves are those of the GPU's BLAS
// library.
#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/cuda/gelu.cuh"
#include "geores/kernels/dense/linear.h"

namespace geores::kernels {
namespace {

using namespace device;

// Activations that are rounded anyway take the GELU with the fewest instructions.
template <class A, class T>
__device__ inline T gelu_of(T x) {
  if constexpr (sizeof(A) == 2)
    return PolynomialGelu::value(x);
  else
    return gelu(x);
}
template <class A, class T>
__device__ inline T slope_of(T x) {
  if constexpr (sizeof(A) == 2)
    return PolynomialGelu::slope(x);
  else
    return gelu_slope(x);
}

constexpr int kRunsOfThread = 2;  // both are on their way together

template <int V, class A>
__global__ void forward(const A* x, A* y, int64_t size) {
  wait_for_previous();
  using T = decltype(number(A()));
  const auto first =
      (static_cast<int64_t>(blockIdx.x) * kRunsOfThread * kThreads + threadIdx.x) * V;
  T v[kRunsOfThread][V];
#pragma unroll
  for (int k = 0; k < kRunsOfThread; ++k)
    if (const auto at = first + k * kThreads * V; at < size) load_values<V>(x + at, v[k]);
#pragma unroll
  for (int k = 0; k < kRunsOfThread; ++k)
    if (const auto at = first + k * kThreads * V; at < size) {
#pragma unroll
      for (int i = 0; i < V; ++i) v[k][i] = gelu_of<A>(v[k][i]);
      store_values<V>(y + at, v[k]);
    }
}

template <int V, class A>
__global__ void backward(const A* x, const A* dy, A* dx, int64_t size) {
  wait_for_previous();
  using T = decltype(number(A()));
  const auto at = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  if (at >= size) return;
  T v[V], g[V];
  load_values<V>(x + at, v);
  load_values<V>(dy + at, g);
#pragma unroll
  for (int i = 0; i < V; ++i) v[i] = g[i] * slope_of<A>(v[i]);
  store_values<V>(dx + at, v);
}

template <int V, class T, class A>
__global__ void add(const T* x, const A* branch, T* out, int64_t size) {
  wait_for_previous();
  const auto at = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  if (at >= size) return;
  T left[V], right[V];
  load_values<V>(x + at, left);
  load_values<V>(branch + at, right);
#pragma unroll
  for (int i = 0; i < V; ++i) left[i] += right[i];
  store_values<V>(out + at, left);
}

template <class A, class F>
void with_vector(int64_t size, F&& f) {
  if (sizeof(A) == 2 && size % 8 == 0)
    f(std::integral_constant<int, 8>());
  else if (size % 4 == 0)
    f(std::integral_constant<int, 4>());
  else
    f(std::integral_constant<int, 1>());
}

unsigned blocks(int64_t size, int per_thread) {
  const int64_t per_block = static_cast<int64_t>(kThreads) * per_thread;
  return static_cast<unsigned>((size + per_block - 1) / per_block);
}

}  // namespace

template <class A>
void gelu_forward(CudaStream stream, const A* x, A* y, int64_t size) {
  if (size == 0) return;
  with_vector<A>(size, [&](auto v) {
    launch(stream, {blocks(size, kRunsOfThread * v), kThreads}, forward<v.value, A>, x, y, size);
  });
  check_launch("gelu_forward");
}

template <class A>
void gelu_backward(CudaStream stream, const A* x, const A* dy, A* dx, int64_t size) {
  if (size == 0) return;
  with_vector<A>(size, [&](auto v) {
    launch(stream, {blocks(size, v), kThreads}, backward<v.value, A>, x, dy, dx, size);
  });
  check_launch("gelu_backward");
}

template <class T, class A>
void add_branch(CudaStream stream, const T* x, const A* branch, T* out, int64_t size) {
  if (size == 0) return;
  with_vector<T>(size, [&](auto v) {
    launch(stream, {blocks(size, v), kThreads}, add<v.value, T, A>, x, branch, out, size);
  });
  check_launch("add_branch");
}

#define GEORES_INSTANTIATE(A)                                    \
  template void gelu_forward(CudaStream, const A*, A*, int64_t); \
  template void gelu_backward(CudaStream, const A*, const A*, A*, int64_t);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
GEORES_INSTANTIATE(BFloat16)
#undef GEORES_INSTANTIATE

template void add_branch(CudaStream, const float*, const float*, float*, int64_t);
template void add_branch(CudaStream, const float*, const BFloat16*, float*, int64_t);
template void add_branch(CudaStream, const double*, const double*, double*, int64_t);

}  // namespace geores::kernels
