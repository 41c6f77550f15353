// nvcc: -prec-div=false
#include "geores/kernels/mixers/sinkhorn.h"

#include "geores/kernels/mixers/quad_sinkhorn.cuh"
#include "geores/kernels/mixers/token_threads.cuh"

namespace geores::kernels {
namespace {

using namespace device;
using manifold::Matrix;

template <int N, class T>
__global__ void __launch_bounds__(kTokensPerBlock)
    sinkhorn(const T* logits, Sinkhorn spec, T* p, int64_t tokens) {
  wait_for_previous();
  const auto t = token_of_thread();
  if (t >= tokens) return;
  put(manifold::sinkhorn(matrix_at<N>(logits + t * N * N, spec.rows_last), spec.options),
      p + t * N * N, spec.rows_last);
}

template <int N, bool Unrolled, class T>
__global__ void __launch_bounds__(kTokensPerBlock)
    sinkhorn_back(const T* logits, Sinkhorn spec, const T* p, const T* dp, T* dlogits,
                  int64_t tokens) {
  wait_for_previous();
  const auto t = token_of_thread();
  if (t >= tokens) return;
  const auto at = [&](const T* values) { return matrix_at<N>(values + t * N * N, spec.rows_last); };
  Matrix<T, N> gradient;
  if constexpr (Unrolled)
    gradient = manifold::sinkhorn_backward_unrolled(at(logits), at(dp), spec.options);
  else
    gradient = manifold::sinkhorn_backward_implicit(at(logits), at(p), at(dp), spec.options);
  put(gradient, dlogits + t * N * N, spec.rows_last);
}

// The row of a 4 × 4 matrix, or of its transpose, that a lane has. Lanes beyond the last token repeat it.
template <class T>
struct QuadAt {
  int64_t first;
  int along;
  bool there;

  __device__ QuadAt(const Sinkhorn& spec, int64_t tokens)
      : along(spec.rows_last ? 4 : 1), there(token_of_thread() < 4 * tokens) {
    const auto token = min(token_of_thread() / 4, tokens - 1);
    first = token * 16 + static_cast<int64_t>(threadIdx.x % 4) * (5 - along);
  }

  __device__ QuadRow<T> row(const T* values) const {
    QuadRow<T> row;
#pragma unroll
    for (int j = 0; j < 4; ++j) row.at[j] = values[first + j * along];
    return row;
  }
  __device__ void put(const QuadRow<T>& row, T* values) const {
    if (!there) return;
#pragma unroll
    for (int j = 0; j < 4; ++j) values[first + j * along] = row.at[j];
  }
};

template <class T>
__device__ inline QuadRow<T> start_of(const QuadRow<T>& logits,
                                      const manifold::SinkhornOptions& options) {
  return quad_start(logits, options, [](T x) { return manifold::exponential(x); });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    quad_sinkhorn(const T* logits, Sinkhorn spec, T* p, int64_t tokens) {
  wait_for_previous();
  const QuadAt<T> mine(spec, tokens);
  auto row = start_of(mine.row(logits), spec.options);
  manifold::sinkhorn_iterations(row, spec.options);
  mine.put(row, p);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    quad_sinkhorn_back(const T* logits, Sinkhorn spec, const T* dp, T* dlogits, int64_t tokens) {
  wait_for_previous();
  const QuadAt<T> mine(spec, tokens);
  const auto from = mine.row(logits), start = start_of(from, spec.options);
  auto d = mine.row(dp);
  manifold::sinkhorn_iterations_backward(start, spec.options, d);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    d.at[j] *= start.at[j];
    if (spec.options.bound > 0)
      d.at[j] = manifold::zero_beyond(from.at[j], T(spec.options.bound), d.at[j]);
  }
  mine.put(d, dlogits);
}

Grid quad_grid(const MixerShape& s) { return {(4 * s.tokens + kThreads - 1) / kThreads, kThreads}; }

}  // namespace

template <class T>
void sinkhorn_forward(CudaStream stream, const T* logits, const Sinkhorn& spec, T* p,
                      const MixerShape& s) {
  with_mixer_size<2>(s, [&](auto n) {
    if constexpr (n == 4)
      launch(stream, quad_grid(s), quad_sinkhorn<T>, logits, spec, p, s.tokens);
    else
      launch(stream, grid_of(s), sinkhorn<n.value, T>, logits, spec, p, s.tokens);
  });
  check_launch("sinkhorn_forward");
}

template <class T>
void sinkhorn_backward(CudaStream stream, const T* logits, const Sinkhorn& spec, const T* p,
                       const T* dp, T* dlogits, const MixerShape& s) {
  with_mixer_size<2>(s, [&](auto n) {
    if (!spec.unrolled)
      return launch(stream, grid_of(s), sinkhorn_back<n.value, false, T>, logits, spec, p, dp,
                    dlogits, s.tokens);
    if constexpr (n == 4)
      launch(stream, quad_grid(s), quad_sinkhorn_back<T>, logits, spec, dp, dlogits, s.tokens);
    else
      launch(stream, grid_of(s), sinkhorn_back<n.value, true, T>, logits, spec, p, dp, dlogits,
             s.tokens);
  });
  check_launch("sinkhorn_backward");
}

#define GEORES_INSTANTIATE(T)                                                                    \
  template void sinkhorn_forward(CudaStream, const T*, const Sinkhorn&, T*, const MixerShape&);  \
  template void sinkhorn_backward(CudaStream, const T*, const Sinkhorn&, const T*, const T*, T*, \
                                  const MixerShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
