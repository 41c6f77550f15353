// Thin QR by Householder reflections, with the sign fix that makes it unique:
//   A = Q R,  QᵀQ = I,  R upper triangular,  R_jj ≥ 0         A, Q (rows, columns), R (columns²)
// Invariant: Q is orthonormal to a few ε for every A, rank-deficient ones included.
// Cost: 4 · rows · columns².
#pragma once

#include "geores/manifold/algebra/matrix.h"

namespace geores::manifold {

template <class T, int R, int C>
struct OrthogonalTriangular {
  Matrix<T, R, C> q;
  Matrix<T, C> r;
};

template <class T, int R, int C>
GEORES_HOST_DEVICE OrthogonalTriangular<T, R, C> qr(Matrix<T, R, C> a) {
  static_assert(R >= C, "the columns of a wide matrix are not independent");
  Vector<T, R> reflector[C];
  const auto reflect = [](Matrix<T, R, C>& m, const Vector<T, R>& w, int first_column) {
    for (int j = first_column; j < C; ++j) {
      const T twice = T(2) * dot(w, column(m, j));
      for (int i = 0; i < R; ++i) m(i, j) -= twice * w[i];
    }
  };
  for (int p = 0; p < C; ++p) {
    Vector<T, R> below{};
    for (int i = p; i < R; ++i) below[i] = a(i, p);
    auto [w, length] = normalise(below);
    if (length != T(0)) {
      w[p] += w[p] < T(0) ? T(-1) : T(1);
      w = normalise(w).direction;
    }
    reflector[p] = w;
    reflect(a, w, p);
  }

  OrthogonalTriangular<T, R, C> result{};
  for (int j = 0; j < C; ++j) result.q(j, j) = T(1);
  for (int p = C - 1; p >= 0; --p) reflect(result.q, reflector[p], 0);
  for (int i = 0; i < C; ++i) {
    const T sign = a(i, i) < T(0) ? T(-1) : T(1);
    for (int j = i; j < C; ++j) result.r(i, j) = sign * a(i, j);
    for (int k = 0; k < R; ++k) result.q(k, i) *= sign;
  }
  return result;
}

}  // namespace geores::manifold
