// Small dense matrices and vectors of fixed size: plain arrays, row-major, no allocation,
// constexpr. They are meant for n residual streams (2..8); every operation is the schoolbook loop.
//   Matrix<double, 2> a{{{1, 2}, {3, 4}}};    a(i, j)
//   Vector<double, 2> x{{1, 2}};              x[i]
#pragma once

#include "geores/manifold/algebra/scalar.h"

namespace geores::manifold {

template <class T, int N>
struct Vector {
  T at[N];

  GEORES_HOST_DEVICE constexpr T& operator[](int i) { return at[i]; }
  GEORES_HOST_DEVICE constexpr const T& operator[](int i) const { return at[i]; }
};

template <class T, int R, int C = R>
struct Matrix {
  T at[R][C];

  GEORES_HOST_DEVICE constexpr T& operator()(int i, int j) { return at[i][j]; }
  GEORES_HOST_DEVICE constexpr const T& operator()(int i, int j) const { return at[i][j]; }
};

template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> identity() {
  Matrix<T, N> result{};
  for (int i = 0; i < N; ++i) result(i, i) = T(1);
  return result;
}

// u vᵀ
template <class T, int R, int C>
GEORES_HOST_DEVICE constexpr Matrix<T, R, C> outer(const Vector<T, R>& u, const Vector<T, C>& v) {
  Matrix<T, R, C> result{};
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) result(i, j) = u[i] * v[j];
  return result;
}

template <class T, int R, int C>
GEORES_HOST_DEVICE constexpr Matrix<T, C, R> transpose(const Matrix<T, R, C>& a) {
  Matrix<T, C, R> result{};
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) result(j, i) = a(i, j);
  return result;
}

template <class T, int R, int C>
GEORES_HOST_DEVICE constexpr Matrix<T, R, C> operator+(const Matrix<T, R, C>& a,
                                                       const Matrix<T, R, C>& b) {
  Matrix<T, R, C> result{};
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) result(i, j) = a(i, j) + b(i, j);
  return result;
}

template <class T, int R, int C>
GEORES_HOST_DEVICE constexpr Matrix<T, R, C> operator-(const Matrix<T, R, C>& a,
                                                       const Matrix<T, R, C>& b) {
  Matrix<T, R, C> result{};
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) result(i, j) = a(i, j) - b(i, j);
  return result;
}

template <class T, int R, int C>
GEORES_HOST_DEVICE constexpr Matrix<T, R, C> operator*(T factor, const Matrix<T, R, C>& a) {
  Matrix<T, R, C> result{};
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) result(i, j) = factor * a(i, j);
  return result;
}

template <class T, int R, int K, int C>
GEORES_HOST_DEVICE constexpr Matrix<T, R, C> operator*(const Matrix<T, R, K>& a,
                                                       const Matrix<T, K, C>& b) {
  Matrix<T, R, C> result{};
  for (int i = 0; i < R; ++i)
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < C; ++j) result(i, j) += a(i, k) * b(k, j);
  return result;
}

template <class T, int R, int C>
GEORES_HOST_DEVICE constexpr Vector<T, R> operator*(const Matrix<T, R, C>& a,
                                                    const Vector<T, C>& x) {
  Vector<T, R> result{};
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) result[i] += a(i, j) * x[j];
  return result;
}

// aᵀ x
template <class T, int R, int C>
GEORES_HOST_DEVICE constexpr Vector<T, C> transpose_times(const Matrix<T, R, C>& a,
                                                          const Vector<T, R>& x) {
  Vector<T, C> result{};
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) result[j] += a(i, j) * x[i];
  return result;
}

template <class T, int N>
GEORES_HOST_DEVICE constexpr Vector<T, N> operator+(const Vector<T, N>& a, const Vector<T, N>& b) {
  Vector<T, N> result{};
  for (int i = 0; i < N; ++i) result[i] = a[i] + b[i];
  return result;
}

template <class T, int N>
GEORES_HOST_DEVICE constexpr Vector<T, N> operator-(const Vector<T, N>& a, const Vector<T, N>& b) {
  Vector<T, N> result{};
  for (int i = 0; i < N; ++i) result[i] = a[i] - b[i];
  return result;
}

template <class T, int N>
GEORES_HOST_DEVICE constexpr Vector<T, N> operator*(T factor, const Vector<T, N>& a) {
  Vector<T, N> result{};
  for (int i = 0; i < N; ++i) result[i] = factor * a[i];
  return result;
}

template <class T, int N>
GEORES_HOST_DEVICE constexpr T dot(const Vector<T, N>& a, const Vector<T, N>& b) {
  T sum = 0;
  for (int i = 0; i < N; ++i) sum += a[i] * b[i];
  return sum;
}

// ⟨a, b⟩ = tr(aᵀb): the pairing of a matrix with its cotangent.
template <class T, int R, int C>
GEORES_HOST_DEVICE constexpr T inner(const Matrix<T, R, C>& a, const Matrix<T, R, C>& b) {
  T sum = 0;
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) sum += a(i, j) * b(i, j);
  return sum;
}

template <class T, int N>
GEORES_HOST_DEVICE constexpr T trace(const Matrix<T, N>& a) {
  T sum = 0;
  for (int i = 0; i < N; ++i) sum += a(i, i);
  return sum;
}

// max |entry|; NaN if any entry is NaN.
template <class T, int N>
GEORES_HOST_DEVICE constexpr T largest_entry(const Vector<T, N>& a) {
  T largest = 0;
  for (int i = 0; i < N; ++i) largest = larger(largest, absolute(a[i]));
  return largest;
}

template <class T, int R, int C>
GEORES_HOST_DEVICE constexpr T largest_entry(const Matrix<T, R, C>& a) {
  T largest = 0;
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) largest = larger(largest, absolute(a(i, j)));
  return largest;
}

template <class T, int R, int C>
GEORES_HOST_DEVICE constexpr Vector<T, R> column(const Matrix<T, R, C>& a, int j) {
  Vector<T, R> result{};
  for (int i = 0; i < R; ++i) result[i] = a(i, j);
  return result;
}

template <class T, int R, int C>
GEORES_HOST_DEVICE constexpr void set_column(Matrix<T, R, C>& a, int j, const Vector<T, R>& x) {
  for (int i = 0; i < R; ++i) a(i, j) = x[i];
}

// max |aᵀa − I|: the distance of the columns from orthonormal ones.
template <class T, int R, int C>
GEORES_HOST_DEVICE constexpr T orthogonality_defect(const Matrix<T, R, C>& a) {
  return largest_entry(transpose(a) * a - identity<T, C>());
}

// The upper triangle of a skew matrix, row by row: x → S with S_ij = x, S_ji = −x for i < j.
template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> skew_from_entries(const T* entries) {
  Matrix<T, N> result{};
  for (int i = 0; i < N; ++i)
    for (int j = i + 1; j < N; ++j) {
      result(i, j) = *entries++;
      result(j, i) = -result(i, j);
    }
  return result;
}

// dL/dentries from S = dL/dskew: S_ij − S_ji.
template <class T, int N>
GEORES_HOST_DEVICE constexpr void skew_from_entries_backward(const Matrix<T, N>& cotangent,
                                                             T* entries) {
  for (int i = 0; i < N; ++i)
    for (int j = i + 1; j < N; ++j) *entries++ = cotangent(i, j) - cotangent(j, i);
}

// x = length · direction with |direction| = 1. Intermediate results neither overflow nor underflow.
// The zero vector has length 0 and direction 0.
template <class T, int N>
struct Polar {
  Vector<T, N> direction;
  T length;
};

template <class T, int N>
GEORES_HOST_DEVICE Polar<T, N> normalise(const Vector<T, N>& x) {
  const T largest = largest_entry(x);
  if (largest == T(0)) return {{}, T(0)};
  const T scale = power_of_two_below(largest);
  Vector<T, N> direction{};
  for (int i = 0; i < N; ++i) direction[i] = x[i] / scale;
  const T length = square_root(dot(direction, direction));
  for (int i = 0; i < N; ++i) direction[i] /= length;
  return {direction, length * scale};
}

// dL/dx from dL/ddirection: (I − kkᵀ) d / |x|; zero if x is zero.
template <class T, int N>
GEORES_HOST_DEVICE Vector<T, N> normalise_backward(const Polar<T, N>& polar,
                                                   const Vector<T, N>& cotangent) {
  if (polar.length == T(0)) return {};
  const T along = dot(polar.direction, cotangent);
  Vector<T, N> result{};
  for (int i = 0; i < N; ++i)
    result[i] = (cotangent[i] - along * polar.direction[i]) / polar.length;
  return result;
}

}  // namespace geores::manifold
