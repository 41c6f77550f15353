#include "geores/kernels/mixers/quad_log_sinkhorn.h"

#include "geores/kernels/cuda/device.cuh"
#include "geores/manifold/sinkhorn.h"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kBlock = 128, kTokens = kBlock / 4;

// manifold::sinkhorn() with a lane for each row and column: the iterations depend on each other, and
// four lanes make that chain a fourth as long. Lane i has row i and column i of the logits.
template <class T>
__global__ void __launch_bounds__(kBlock)
    quad_log_sinkhorn(const T* logits, LogSinkhorn<T> spec, T* p, int64_t tokens) {
  wait_for_previous();
  using Line = manifold::Vector<T, 4>;
  const int lane = static_cast<int>(threadIdx.x) % 4;
  const auto mine = static_cast<int64_t>(blockIdx.x) * kTokens + threadIdx.x / 4;
  const T* from = logits + min(mine, tokens - 1) * 16;
  // Of the transposed matrix, where rows are normalised last.
  const int along = spec.rows_last ? 4 : 1, across = 5 - along;
  const auto bounded = [&](T x) {
    return spec.bound > T(0) ? manifold::clamp(x, -spec.bound, spec.bound) : x;
  };
  Line row{}, column{};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    row[k] = bounded(from[lane * across + k * along]);
    column[k] = bounded(from[lane * along + k * across]);
  }
  const auto potential = [](const Line& line, T others) {
    Line sum{};
#pragma unroll
    for (int k = 0; k < 4; ++k) sum[k] = line[k] + __shfl_sync(kAllLanes, others, k, 4);
    return manifold::detail::minus_log_sum_exp(sum);
  };
  T f = 0, g = 0;
  for (int iteration = 0; iteration < spec.iterations; ++iteration) {
    f = potential(row, g);
    g = potential(column, f);
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const T other = __shfl_sync(kAllLanes, g, k, 4);
    if (mine < tokens) p[mine * 16 + lane * across + k * along] = exp(row[k] + f + other);
  }
}

}  // namespace

template <class T>
void quad_log_sinkhorn_forward(CudaStream stream, const T* logits, const LogSinkhorn<T>& spec, T* p,
                               int64_t tokens) {
  if (tokens == 0) return;
  launch(stream, {(tokens + kTokens - 1) / kTokens, kBlock}, quad_log_sinkhorn<T>, logits, spec, p,
         tokens);
  check_launch("log_sinkhorn_forward");
}

template void quad_log_sinkhorn_forward(CudaStream, const float*, const LogSinkhorn<float>&, float*,
                                        int64_t);
template void quad_log_sinkhorn_forward(CudaStream, const double*, const LogSinkhorn<double>&,
                                        double*, int64_t);

}  // namespace geores::kernels
