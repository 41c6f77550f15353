#include "geores/kernels/dense/swiglu.h"

#include <type_traits>

#include "geores/kernels/cuda/device.cuh"

namespace geores::kernels {
namespace {

using namespace device;

template <class A>
using Number = std::conditional_t<std::is_same_v<A, double>, double, float>;

template <class T>
__device__ inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

// f(offset of the gate, offset of the up value, offset in y) for each run of V values.
template <int V, class F>
__device__ inline void for_each_run(int64_t rows, int64_t hidden, F&& f) {
  const int64_t runs = hidden / V, all = rows * runs;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < all;
       i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t row = i / runs, column = (i - row * runs) * V;
    const int64_t gate = row * 2 * hidden + column;
    f(gate, gate + hidden, row * hidden + column);
  }
}

template <int V, class A>
__global__ void forward(const A* parts, A* y, int64_t rows, int64_t hidden) {
  wait_for_previous();
  using T = Number<A>;
  for_each_run<V>(rows, hidden, [&](int64_t gate, int64_t up, int64_t to) {
    T g[V], u[V];
    load_values<V>(parts + gate, g);
    load_values<V>(parts + up, u);
#pragma unroll
    for (int i = 0; i < V; ++i) g[i] *= sigmoid(g[i]) * u[i];
    store_values<V>(y + to, g);
  });
}

template <int V, class A>
__global__ void backward(const A* parts, const A* dy, A* dparts, int64_t rows, int64_t hidden) {
  wait_for_previous();
  using T = Number<A>;
  for_each_run<V>(rows, hidden, [&](int64_t gate, int64_t up, int64_t from) {
    T g[V], u[V], d[V];
    load_values<V>(parts + gate, g);
    load_values<V>(parts + up, u);
    load_values<V>(dy + from, d);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const T s = sigmoid(g[i]), silu = g[i] * s;
      g[i] = d[i] * u[i] * (s + silu * (T(1) - s));
      u[i] = d[i] * silu;
    }
    store_values<V>(dparts + gate, g);
    store_values<V>(dparts + up, u);
  });
}

// f(V) with the longest run that divides a row and is read in one access.
template <class A, class F>
void with_run(int64_t hidden, F&& f) {
  constexpr int most = sizeof(A) == 2 ? 8 : 4;
  if (sizeof(A) < 8 && hidden % most == 0)
    f(std::integral_constant<int, most>());
  else
    f(std::integral_constant<int, 1>());
}

Grid grid_for(int64_t runs) {
  return {std::clamp<int64_t>((runs + kThreads - 1) / kThreads, 1, 1 << 15), kThreads};
}

}  // namespace

template <class A>
void swiglu_forward(CudaStream stream, const A* parts, A* y, int64_t rows, int64_t hidden) {
  if (rows * hidden == 0) return;
  with_run<A>(hidden, [&]<int V>(std::integral_constant<int, V>) {
    launch(stream, grid_for(rows * (hidden / V)), forward<V, A>, parts, y, rows, hidden);
  });
  check_launch("swiglu_forward");
}

template <class A>
void swiglu_backward(CudaStream stream, const A* parts, const A* dy, A* dparts, int64_t rows,
                     int64_t hidden) {
  if (rows * hidden == 0) return;
  with_run<A>(hidden, [&]<int V>(std::integral_constant<int, V>) {
    launch(stream, grid_for(rows * (hidden / V)), backward<V, A>, parts, dy, dparts, rows, hidden);
  });
  check_launch("swiglu_backward");
}

#define GEORES_INSTANTIATE(A)                                               \
  template void swiglu_forward(CudaStream, const A*, A*, int64_t, int64_t); \
  template void swiglu_backward(CudaStream, const A*, const A*, A*, int64_t, int64_t);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(BFloat16)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
