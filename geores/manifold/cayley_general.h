// The Cayley transform of any square matrix, by a small pivoted solve:
//   Q = (I + M)⁻¹ (I − M) = 2 (I + M)⁻¹ − I                                       M, Q (n, n)
// For skew M, Q is a rotation without eigenvalue −1. sHC (arXiv:2603.20896) builds its U and V
// this way from (n−1)(n−2)/2 entries; the exact mixer of JPmHC (arXiv:2602.18308),
// (I − αW/2)⁻¹(I + αW/2), is the case M = −αW/2.
//
// Precision: orthogonal to about ε (1 + ‖M‖). cayley.h does not have this limit; prefer it for a
// rank-2 M. Cost: n³.
#pragma once

#include "geores/manifold/algebra/solve.h"

namespace geores::manifold {

// Every I + M with skew M is invertible; if another M makes it singular, the result is all NaN.
template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> cayley_transform(const Matrix<T, N>& m) {
  const auto one = identity<T, N>();
  Matrix<T, N> q{};
  if (!solve(one + m, one - m, q))
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < N; ++j) q(i, j) = static_cast<T>(__builtin_nan(""));
  return q;
}

// dL/dM = −½ (I + Q)ᵀ S (I + Q)ᵀ from Q itself and S = dL/dQ, without a second solve.
template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> cayley_transform_backward(const Matrix<T, N>& q,
                                                                    const Matrix<T, N>& cotangent) {
  const auto shifted = transpose(identity<T, N>() + q);
  return T(-0.5) * (shifted * cotangent * shifted);
}

}  // namespace geores::manifold
