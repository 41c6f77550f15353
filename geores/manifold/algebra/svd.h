// Singular values by one-sided Jacobi (Hestenes 1958; Demmel & Veselić 1992):
//   A = U diag(σ) Vᵀ        A, U (rows, columns), rows ≥ columns; σ (columns) descending; V square
// Columns of A are rotated in pairs until they are orthogonal; their lengths are then σ.
// Invariants: UᵀU = VᵀV = I, also where σ_i = 0 (U is completed to an orthonormal set).
//
// Precision: σ to a few ε σ_max. Cost: about 5 sweeps of 3 · rows · columns². The number of sweeps
// is limited, so NaN and Inf come to an end too (and give NaN).
#pragma once

#include "geores/manifold/algebra/matrix.h"

namespace geores::manifold {

template <class T, int R, int C>
struct SingularValues {
  Matrix<T, R, C> u;
  Vector<T, C> sigma;
  Matrix<T, C> v;
};

namespace detail {

// One sweep over all pairs of columns; true if a rotation was needed.
template <class T, int R, int C>
GEORES_HOST_DEVICE bool jacobi_sweep(Matrix<T, R, C>& a, Matrix<T, C>& v) {
  bool rotated = false;
  for (int p = 0; p < C; ++p)
    for (int q = p + 1; q < C; ++q) {
      T pp = 0, qq = 0, pq = 0;
      for (int i = 0; i < R; ++i) {
        pp += a(i, p) * a(i, p);
        qq += a(i, q) * a(i, q);
        pq += a(i, p) * a(i, q);
      }
      if (!(absolute(pq) > Precision<T>::epsilon * square_root(pp) * square_root(qq))) continue;
      rotated = true;
      // tan of the smaller angle that makes the pair orthogonal; 1/(2ζ) if ζ² would overflow.
      const T zeta = (qq - pp) / (T(2) * pq), size = absolute(zeta);
      const T root = size > T(1) / Precision<T>::epsilon ? size : square_root(T(1) + size * size);
      const T tangent = (zeta < T(0) ? T(-1) : T(1)) / (size + root);
      const T cosine_ = T(1) / square_root(T(1) + tangent * tangent), sine_ = cosine_ * tangent;
      for (int i = 0; i < R; ++i) {
        const T left = a(i, p), right = a(i, q);
        a(i, p) = cosine_ * left - sine_ * right;
        a(i, q) = sine_ * left + cosine_ * right;
      }
      for (int i = 0; i < C; ++i) {
        const T left = v(i, p), right = v(i, q);
        v(i, p) = cosine_ * left - sine_ * right;
        v(i, q) = sine_ * left + cosine_ * right;
      }
    }
  return rotated;
}

// A unit vector orthogonal to the first `count` columns of u: the axis that they cover least,
// orthogonalised.
template <class T, int R, int C>
GEORES_HOST_DEVICE Vector<T, R> missing_direction(const Matrix<T, R, C>& u, int count) {
  int axis = 0;
  T least = T(2);
  for (int i = 0; i < R; ++i) {
    T covered = 0;
    for (int j = 0; j < count; ++j) covered += u(i, j) * u(i, j);
    if (covered < least) {
      least = covered;
      axis = i;
    }
  }
  Vector<T, R> x{};
  x[axis] = T(1);
  for (int pass = 0; pass < 2; ++pass) {
    for (int j = 0; j < count; ++j) {
      const auto other = column(u, j);
      x = x - dot(other, x) * other;
    }
    x = normalise(x).direction;
  }
  return x;
}

}  // namespace detail

template <class T, int R, int C>
GEORES_HOST_DEVICE SingularValues<T, R, C> singular_value_decomposition(Matrix<T, R, C> a) {
  static_assert(R >= C, "give the transpose of a wide matrix");
  constexpr int most_sweeps = 30;
  const T scale = power_of_two_below(largest_entry(a));
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) a(i, j) /= scale;
  auto v = identity<T, C>();
  for (int sweep = 0; sweep < most_sweeps && detail::jacobi_sweep(a, v); ++sweep) {
  }

  SingularValues<T, R, C> result{{}, {}, v};
  for (int j = 0; j < C; ++j) {
    const auto [direction, length] = normalise(column(a, j));
    set_column(result.u, j, direction);
    result.sigma[j] = length * scale;
  }
  for (int j = 1; j < C; ++j)  // insertion sort, largest first
    for (int k = j; k > 0 && result.sigma[k] > result.sigma[k - 1]; --k) {
      exchange(result.sigma[k], result.sigma[k - 1]);
      for (int i = 0; i < R; ++i) exchange(result.u(i, k), result.u(i, k - 1));
      for (int i = 0; i < C; ++i) exchange(result.v(i, k), result.v(i, k - 1));
    }
  // Columns shorter than the rounding error of the largest one have a random direction, which is
  // not orthogonal to the others. Replace it.
  const T noise = T(R) * Precision<T>::epsilon * result.sigma[0];
  for (int j = 0; j < C; ++j)
    if (result.sigma[j] <= noise) set_column(result.u, j, detail::missing_direction(result.u, j));
  return result;
}

template <class T, int R, int C>
GEORES_HOST_DEVICE Vector<T, C> singular_values(const Matrix<T, R, C>& a) {
  return singular_value_decomposition(a).sigma;
}

// ‖A‖₂, the largest singular value.
template <class T, int R, int C>
GEORES_HOST_DEVICE T spectral_norm(const Matrix<T, R, C>& a) {
  return singular_values(a)[0];
}

// U Vᵀ: the matrix with orthonormal columns that is nearest to A in every unitarily invariant norm.
// It is unique if A has full rank.
template <class T, int R, int C>
GEORES_HOST_DEVICE Matrix<T, R, C> polar_factor(const Matrix<T, R, C>& a) {
  const auto decomposition = singular_value_decomposition(a);
  return decomposition.u * transpose(decomposition.v);
}

}  // namespace geores::manifold
