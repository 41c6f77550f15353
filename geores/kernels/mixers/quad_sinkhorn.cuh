// Sinkhorn iterations (manifold/sinkhorn.h) on a 4 × 4 matrix with one lane for each row. The
// iterations depend on each other; four lanes make that chain a fourth as long.
#pragma once

#include "geores/kernels/cuda/device.cuh"
#include "geores/manifold/sinkhorn.h"

namespace geores::kernels::device {

template <class T>
struct QuadRow {
  T at[4];

  __device__ T sum() const { return (at[0] + at[1]) + (at[2] + at[3]); }
};

// A fast inverse: the iterations are one long chain, and divisions would be half of it.
__device__ inline float inverse_of(float x) { return __fdividef(1.f, x); }
__device__ inline double inverse_of(double x) { return 1 / x; }

template <class T>
__device__ inline T quad_sum(T x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

// Multiplies rows or columns by the factors that their lanes hold.
template <bool Rows, class T>
__device__ inline void scale_lines(QuadRow<T>& p, T factor) {
#pragma unroll
  for (int j = 0; j < 4; ++j) p.at[j] *= Rows ? factor : __shfl_sync(kAllLanes, factor, j, 4);
}

// The functions that manifold/sinkhorn.h wants. A lane has the divisor of its row or of its column.
template <bool Rows, class T>
__device__ inline T divide_lines(QuadRow<T>& p, double guard) {
  const T divisor = (Rows ? p.sum() : SharedSums<4, 4, T>(p.at).at[0]) + T(guard);
  scale_lines<Rows>(p, inverse_of(divisor));
  return divisor;
}

template <bool Rows, class T>
__device__ inline void undo_division(QuadRow<T>& p, T divisor) {
  scale_lines<Rows>(p, divisor);
}

template <bool Rows, class T>
__device__ inline void divide_lines_backward(const QuadRow<T>& p, T divisor, QuadRow<T>& d) {
  T along = 0;
  if constexpr (Rows) {
#pragma unroll
    for (int j = 0; j < 4; ++j) along += p.at[j] * d.at[j];
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) d.at[j] -= Rows ? along : quad_sum(p.at[j] * d.at[j]);
  scale_lines<Rows>(d, inverse_of(divisor));
}

template <class T>
__device__ inline void add_to_entries(QuadRow<T>& p, double x) {
#pragma unroll
  for (int j = 0; j < 4; ++j) p.at[j] += T(x);
}

// The start of the iterations, from the logits of a row.
template <class T, class Exp>
__device__ inline QuadRow<T> quad_start(QuadRow<T> row, const manifold::SinkhornOptions& options,
                                        Exp&& exponential) {
  const T bound = T(options.bound), range = T(manifold::kSinkhornRange<T>);
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (options.bound > 0) row.at[j] = manifold::clamp(row.at[j], -bound, bound);
  if (options.guard == 0 || options.softmax) {
    T largest = row.at[0];
#pragma unroll
    for (int j = 1; j < 4; ++j) largest = manifold::larger(largest, row.at[j]);
#pragma unroll
    for (int j = 0; j < 4; ++j) row.at[j] = manifold::larger(row.at[j] - largest, -range);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) row.at[j] = exponential(row.at[j]);
  return row;
}

}  // namespace geores::kernels::device
