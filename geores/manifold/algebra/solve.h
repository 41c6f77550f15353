// Gaussian elimination with partial pivoting for small square systems: P A = L U. Cost: n³/3 for
// the factors, n² for each right-hand side. A singular matrix is reported; there is no division by
// zero. A NaN in A gives NaN.
#pragma once

#include "geores/manifold/algebra/matrix.h"

namespace geores::manifold {

// Solves A X = B. Returns false and leaves X unchanged if a pivot is exactly zero.
template <class T, int N, int C>
GEORES_HOST_DEVICE constexpr bool solve(Matrix<T, N> a, Matrix<T, N, C> b, Matrix<T, N, C>& x) {
  for (int p = 0; p < N; ++p) {
    int pivot = p;
    for (int i = p + 1; i < N; ++i)
      if (absolute(a(i, p)) > absolute(a(pivot, p))) pivot = i;
    if (a(pivot, p) == T(0)) return false;
    for (int j = 0; j < N; ++j) exchange(a(p, j), a(pivot, j));
    for (int j = 0; j < C; ++j) exchange(b(p, j), b(pivot, j));
    for (int i = p + 1; i < N; ++i) {
      const T factor = a(i, p) / a(p, p);
      for (int j = p + 1; j < N; ++j) a(i, j) -= factor * a(p, j);
      for (int j = 0; j < C; ++j) b(i, j) -= factor * b(p, j);
    }
  }
  for (int p = N - 1; p >= 0; --p)
    for (int j = 0; j < C; ++j) {
      T sum = b(p, j);
      for (int k = p + 1; k < N; ++k) sum -= a(p, k) * x(k, j);
      x(p, j) = sum / a(p, p);
    }
  return true;
}

// det A, the signed product of the pivots; 0 for a singular matrix.
template <class T, int N>
GEORES_HOST_DEVICE constexpr T determinant(Matrix<T, N> a) {
  T product = 1;
  for (int p = 0; p < N; ++p) {
    int pivot = p;
    for (int i = p + 1; i < N; ++i)
      if (absolute(a(i, p)) > absolute(a(pivot, p))) pivot = i;
    if (a(pivot, p) == T(0)) return T(0);
    if (pivot != p) {
      product = -product;
      for (int j = 0; j < N; ++j) exchange(a(p, j), a(pivot, j));
    }
    product *= a(p, p);
    for (int i = p + 1; i < N; ++i) {
      const T factor = a(i, p) / a(p, p);
      for (int j = p + 1; j < N; ++j) a(i, j) -= factor * a(p, j);
    }
  }
  return product;
}

}  // namespace geores::manifold
