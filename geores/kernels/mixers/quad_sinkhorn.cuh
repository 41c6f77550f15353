// Guarded Sinkhorn iterations (mixers.h) on a 4 × 4 matrix with one lane for each row. The
// iterations depend on each other; four lanes make that chain a fourth as long.
#pragma once

#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/mixers/mixers.h"

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

// One iteration; `row` and `column` are the divisors of this lane's row and column.
template <class T>
__device__ inline void normalize_quad(QuadRow<T>& p, T guard, T& row, T& column) {
  row = p.sum() + guard;
  const T inverse = inverse_of(row);
#pragma unroll
  for (int j = 0; j < 4; ++j) p.at[j] *= inverse;
  column = SharedSums<4, 4, T>(p.at).at[0] + guard;
  const T column_inverse = inverse_of(column);
#pragma unroll
  for (int j = 0; j < 4; ++j) p.at[j] *= __shfl_sync(kAllLanes, column_inverse, j, 4);
}

// Turns d, the gradient of the result of the iterations, into the gradient of `start`.
template <class T>
__device__ inline void normalized_quad_backward(const QuadRow<T>& start,
                                                const GuardedRoutes<T>& routes, QuadRow<T>& d) {
  T rows[kMostGuardedIterations], columns[kMostGuardedIterations];
  auto p = start;
  for (int k = 0; k < routes.iterations; ++k) normalize_quad(p, routes.guard, rows[k], columns[k]);
  for (int k = routes.iterations - 1; k >= 0; --k) {
    T along = 0;
    const T column = columns[k], column_inverse = inverse_of(column);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      d.at[j] =
          (d.at[j] - quad_sum(p.at[j] * d.at[j])) * __shfl_sync(kAllLanes, column_inverse, j, 4);
      p.at[j] *= __shfl_sync(kAllLanes, column, j, 4);
      along += p.at[j] * d.at[j];
    }
    const T inverse = inverse_of(rows[k]);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      d.at[j] = (d.at[j] - along) * inverse;
      p.at[j] *= rows[k];
    }
  }
}

}  // namespace geores::kernels::device
