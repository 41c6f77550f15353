// sHC's mixer, made by one thread for each token: for three to eight streams.
#include "geores/kernels/mixers/mixers.h"
#include "geores/kernels/mixers/token_threads.cuh"
#include "geores/manifold/cayley_general.h"
#include "geores/manifold/spectral_sphere.h"

namespace geores::kernels {
namespace {

using namespace device;
using manifold::Matrix;

// The rotation whose skew matrix has these entries above its diagonal.
template <int M, class T>
__device__ inline Matrix<T, M> rotation_of(const T* entries) {
  T held[M * (M - 1) / 2];
#pragma unroll
  for (int i = 0; i < M * (M - 1) / 2; ++i) held[i] = entries[i];
  return manifold::cayley_transform(manifold::skew_from_entries<T, M>(held));
}

template <int N, class T>
__global__ void __launch_bounds__(kTokensPerBlock)
    sphere(SphereArrays<const T> in, T* h, int64_t tokens) {
  wait_for_previous();
  constexpr int m = N - 1, entries = m * (m - 1) / 2;
  const auto t = token_of_thread();
  if (t >= tokens) return;
  manifold::Vector<T, m> sigma;
#pragma unroll
  for (int i = 0; i < m; ++i) sigma[i] = in.sigma[t * m + i];
  put(manifold::spectral_sphere(rotation_of<m>(in.left + t * entries), sigma,
                                rotation_of<m>(in.right + t * entries)),
      h + t * (N * N));
}

template <int N, class T>
__global__ void __launch_bounds__(kTokensPerBlock)
    sphere_back(SphereArrays<const T> in, const T* dh, SphereArrays<T> gradients, int64_t tokens) {
  wait_for_previous();
  constexpr int m = N - 1, entries = m * (m - 1) / 2;
  const auto t = token_of_thread();
  if (t >= tokens) return;
  manifold::Vector<T, m> sigma;
#pragma unroll
  for (int i = 0; i < m; ++i) sigma[i] = in.sigma[t * m + i];
  const auto u = rotation_of<m>(in.left + t * entries), v = rotation_of<m>(in.right + t * entries);
  const auto d = manifold::spectral_sphere_backward(u, sigma, v, matrix_at<N>(dh + t * (N * N)));
  const auto store = [&](const Matrix<T, m>& q, const Matrix<T, m>& dq, T* to) {
    T made[entries] = {};
    manifold::skew_from_entries_backward(manifold::cayley_transform_backward(q, dq), made);
#pragma unroll
    for (int i = 0; i < entries; ++i) to[t * entries + i] = made[i];
  };
  store(u, d.u, gradients.left);
  store(v, d.v, gradients.right);
#pragma unroll
  for (int i = 0; i < m; ++i) gradients.sigma[t * m + i] = d.sigma[i];
}

}  // namespace

template <class T>
void spectral_sphere_forward(CudaStream stream, const SphereArrays<const T>& in, T* h,
                             const MixerShape& s) {
  with_mixer_size<3>(
      s, [&](auto n) { launch(stream, grid_of(s), sphere<n.value, T>, in, h, s.tokens); });
  check_launch("spectral_sphere_forward");
}

template <class T>
void spectral_sphere_backward(CudaStream stream, const SphereArrays<const T>& in, const T* dh,
                              const SphereArrays<T>& gradients, const MixerShape& s) {
  with_mixer_size<3>(s, [&](auto n) {
    launch(stream, grid_of(s), sphere_back<n.value, T>, in, dh, gradients, s.tokens);
  });
  check_launch("spectral_sphere_backward");
}

#define GEORES_INSTANTIATE(T)                                                                \
  template void spectral_sphere_forward(CudaStream, const SphereArrays<const T>&, T*,        \
                                        const MixerShape&);                                  \
  template void spectral_sphere_backward(CudaStream, const SphereArrays<const T>&, const T*, \
                                         const SphereArrays<T>&, const MixerShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
