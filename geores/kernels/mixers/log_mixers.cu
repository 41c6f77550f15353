// Mixers that are made by one thread for each token, with the algorithms of manifold/: for two to
// eight streams.
#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/mixers/mixers.h"
#include "geores/kernels/mixers/quad_log_sinkhorn.h"
#include "geores/manifold/cayley_general.h"
#include "geores/manifold/sinkhorn.h"
#include "geores/manifold/spectral_sphere.h"

namespace geores::kernels {
namespace {

using namespace device;
using manifold::Matrix;

constexpr int kBlock = 64;  // small, so that 16 000 tokens reach all multiprocessors

__device__ inline int64_t token_of_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// The token's matrix at `values`, transposed or as it is.
template <int N, class T>
__device__ inline Matrix<T, N> matrix_at(const T* values, bool transposed) {
  Matrix<T, N> m;
#pragma unroll
  for (int i = 0; i < N; ++i)
#pragma unroll
    for (int j = 0; j < N; ++j) m(i, j) = transposed ? values[j * N + i] : values[i * N + j];
  return m;
}

template <int N, class T>
__device__ inline void put(const Matrix<T, N>& m, T* values, bool transposed) {
#pragma unroll
  for (int i = 0; i < N; ++i)
#pragma unroll
    for (int j = 0; j < N; ++j) values[i * N + j] = transposed ? m(j, i) : m(i, j);
}

template <class T>
__device__ inline manifold::SinkhornOptions<T> options_of(const LogSinkhorn<T>& spec) {
  return {.iterations = spec.iterations,
          .clamp = spec.bound,
          .bounded = spec.bound > T(0),
          .range = kSinkhornRange<T>};
}

template <int N, class T>
__global__ void __launch_bounds__(kBlock)
    log_sinkhorn(const T* logits, LogSinkhorn<T> spec, T* p, int64_t tokens) {
  wait_for_previous();
  const auto t = token_of_thread();
  if (t >= tokens) return;
  put<N>(manifold::sinkhorn(matrix_at<N>(logits + t * (N * N), spec.rows_last), options_of(spec)),
         p + t * (N * N), spec.rows_last);
}

template <int N, bool Unrolled, class T>
__global__ void __launch_bounds__(kBlock)
    log_sinkhorn_back(const T* logits, LogSinkhorn<T> spec, const T* p, const T* dp, T* dlogits,
                      int64_t tokens) {
  wait_for_previous();
  const auto t = token_of_thread();
  if (t >= tokens) return;
  const auto at = t * (N * N);
  const auto from = matrix_at<N>(logits + at, spec.rows_last),
             d = matrix_at<N>(dp + at, spec.rows_last);
  Matrix<T, N> gradient;
  if constexpr (Unrolled)
    gradient = manifold::sinkhorn_backward_unrolled(from, d, options_of(spec));
  else
    gradient = manifold::sinkhorn_backward_implicit(from, matrix_at<N>(p + at, spec.rows_last), d,
                                                    options_of(spec));
  put<N>(gradient, dlogits + at, spec.rows_last);
}

// The rotation whose skew matrix has these entries above its diagonal.
template <int M, class T>
__device__ inline Matrix<T, M> rotation_of(const T* entries) {
  T held[M * (M - 1) / 2];
#pragma unroll
  for (int i = 0; i < M * (M - 1) / 2; ++i) held[i] = entries[i];
  return manifold::cayley_transform(manifold::skew_from_entries<T, M>(held));
}

template <int N, class T>
__global__ void __launch_bounds__(kBlock) sphere(SphereArrays<const T> in, T* h, int64_t tokens) {
  wait_for_previous();
  constexpr int m = N - 1, entries = m * (m - 1) / 2;
  const auto t = token_of_thread();
  if (t >= tokens) return;
  manifold::Vector<T, m> sigma;
#pragma unroll
  for (int i = 0; i < m; ++i) sigma[i] = in.sigma[t * m + i];
  put<N>(manifold::spectral_sphere(rotation_of<m>(in.left + t * entries), sigma,
                                   rotation_of<m>(in.right + t * entries)),
         h + t * (N * N), false);
}

template <int N, class T>
__global__ void __launch_bounds__(kBlock)
    sphere_back(SphereArrays<const T> in, const T* dh, SphereArrays<T> gradients, int64_t tokens) {
  wait_for_previous();
  constexpr int m = N - 1, entries = m * (m - 1) / 2;
  const auto t = token_of_thread();
  if (t >= tokens) return;
  manifold::Vector<T, m> sigma;
#pragma unroll
  for (int i = 0; i < m; ++i) sigma[i] = in.sigma[t * m + i];
  const auto u = rotation_of<m>(in.left + t * entries), v = rotation_of<m>(in.right + t * entries);
  const auto d =
      manifold::spectral_sphere_backward(u, sigma, v, matrix_at<N>(dh + t * (N * N), false));
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

// f(size) for First to 8 streams.
template <int First, class F>
void with_log_mixer(const MixerShape& s, F&& f) {
  if (s.tokens == 0) return;
  [&]<int... N>(std::integer_sequence<int, N...>) {
    ((s.n == N + First && (f(std::integral_constant<int, N + First>()), true)) || ...);
  }
  (std::make_integer_sequence<int, 9 - First>());
}

Grid grid_of(const MixerShape& s) { return {(s.tokens + kBlock - 1) / kBlock, kBlock}; }

}  // namespace

template <class T>
void log_sinkhorn_forward(CudaStream stream, const T* logits, const LogSinkhorn<T>& spec, T* p,
                          const MixerShape& s) {
  if (s.n == 4) return quad_log_sinkhorn_forward(stream, logits, spec, p, s.tokens);
  with_log_mixer<2>(s, [&](auto n) {
    launch(stream, grid_of(s), log_sinkhorn<n.value, T>, logits, spec, p, s.tokens);
  });
  check_launch("log_sinkhorn_forward");
}

template <class T>
void log_sinkhorn_backward(CudaStream stream, const T* logits, const LogSinkhorn<T>& spec,
                           const T* p, const T* dp, T* dlogits, const MixerShape& s) {
  with_log_mixer<2>(s, [&](auto n) {
    if (spec.unrolled)
      launch(stream, grid_of(s), log_sinkhorn_back<n.value, true, T>, logits, spec, p, dp, dlogits,
             s.tokens);
    else
      launch(stream, grid_of(s), log_sinkhorn_back<n.value, false, T>, logits, spec, p, dp, dlogits,
             s.tokens);
  });
  check_launch("log_sinkhorn_backward");
}

template <class T>
void spectral_sphere_forward(CudaStream stream, const SphereArrays<const T>& in, T* h,
                             const MixerShape& s) {
  with_log_mixer<3>(
      s, [&](auto n) { launch(stream, grid_of(s), sphere<n.value, T>, in, h, s.tokens); });
  check_launch("spectral_sphere_forward");
}

template <class T>
void spectral_sphere_backward(CudaStream stream, const SphereArrays<const T>& in, const T* dh,
                              const SphereArrays<T>& gradients, const MixerShape& s) {
  with_log_mixer<3>(s, [&](auto n) {
    launch(stream, grid_of(s), sphere_back<n.value, T>, in, dh, gradients, s.tokens);
  });
  check_launch("spectral_sphere_backward");
}

#define GEORES_INSTANTIATE(T)                                                                \
  template void log_sinkhorn_forward(CudaStream, const T*, const LogSinkhorn<T>&, T*,        \
                                     const MixerShape&);                                     \
  template void log_sinkhorn_backward(CudaStream, const T*, const LogSinkhorn<T>&, const T*, \
                                      const T*, T*, const MixerShape&);                      \
  template void spectral_sphere_forward(CudaStream, const SphereArrays<const T>&, T*,        \
                                        const MixerShape&);                                  \
  template void spectral_sphere_backward(CudaStream, const SphereArrays<const T>&, const T*, \
                                         const SphereArrays<T>&, const MixerShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
