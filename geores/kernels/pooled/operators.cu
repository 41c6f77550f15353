#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/pooled/operator_launch.cuh"
#include "geores/kernels/pooled/operators.h"
#include "geores/manifold/hybrid.h"

namespace geores::kernels {
namespace {

using namespace device;

template <int N, class T>
__device__ inline manifold::HybridGenerators<T, N> generators_at(const HybridArrays<const T>& p,
                                                                 int64_t o) {
  manifold::HybridGenerators<T, N> g;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    g.u[i] = p.u[o * N + i];
    g.v[i] = p.v[o * N + i];
    g.k[i] = p.k[o * N + i];
  }
  g.beta = p.beta[o];
  g.gamma = p.gamma[o];
  return g;
}

template <int N, class T>
__global__ void forward(HybridArrays<const T> p, T* g, int64_t operators) {
  wait_for_previous();
  const auto o = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (o >= operators) return;
  const auto matrix = manifold::hybrid_operator(generators_at<N>(p, o));
#pragma unroll
  for (int i = 0; i < N * N; ++i) g[o * N * N + i] = matrix.at[i / N][i % N];
}

template <int N, class T>
__global__ void backward(HybridArrays<const T> p, const T* dg, HybridArrays<T> gradients,
                         int64_t operators) {
  wait_for_previous();
  const auto o = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (o >= operators) return;
  manifold::Matrix<T, N> cotangent;
#pragma unroll
  for (int i = 0; i < N * N; ++i) cotangent.at[i / N][i % N] = dg[o * N * N + i];
  const auto d = manifold::hybrid_operator_backward(generators_at<N>(p, o), cotangent);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    gradients.u[o * N + i] = d.u[i];
    gradients.v[o * N + i] = d.v[i];
    gradients.k[o * N + i] = d.k[i];
  }
  gradients.beta[o] = d.beta;
  gradients.gamma[o] = d.gamma;
}

}  // namespace

template <class T>
void hybrid_operators_forward(CudaStream stream, const HybridArrays<const T>& generators, T* g,
                              int64_t operators, int64_t n) {
  with_operators(operators, n, [&](auto size, unsigned blocks) {
    launch(stream, {blocks, kOperatorsPerBlock}, forward<size.value, T>, generators, g, operators);
  });
  check_launch("hybrid_operators_forward");
}

template <class T>
void hybrid_operators_backward(CudaStream stream, const HybridArrays<const T>& generators,
                               const T* dg, const HybridArrays<T>& gradients, int64_t operators,
                               int64_t n) {
  with_operators(operators, n, [&](auto size, unsigned blocks) {
    launch(stream, {blocks, kOperatorsPerBlock}, backward<size.value, T>, generators, dg, gradients,
           operators);
  });
  check_launch("hybrid_operators_backward");
}

#define GEORES_INSTANTIATE(T)                                                                   \
  template void hybrid_operators_forward(CudaStream, const HybridArrays<const T>&, T*, int64_t, \
                                         int64_t);                                              \
  template void hybrid_operators_backward(CudaStream, const HybridArrays<const T>&, const T*,   \
                                          const HybridArrays<T>&, int64_t, int64_t);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
