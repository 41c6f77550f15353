// Eigenvalues of a small general real matrix: Householder reduction to Hessenberg form, then the
// implicit double-shift QR of Francis (Golub & Van Loan, Matrix Computations, 7.4.2 and 7.5.2).
//   λ_i = real[i] + i · imaginary[i];  a complex pair is adjacent, +imaginary first
//
// Precision: backward stable: |error| is about ε‖A‖ for a normal matrix (a rotation), more for a
// defective one. Cost: about 10 n³. The number of sweeps is limited, so NaN and Inf come to an end
// too, with converged = false.
#pragma once

#include "geores/manifold/algebra/matrix.h"

namespace geores::manifold {

template <class T, int N>
struct Eigenvalues {
  Vector<T, N> real, imaginary;
  bool converged;
};

namespace detail {

// The vector w of the reflection I − 2wwᵀ that sends x to a multiple of the first axis; 0 if x = 0.
template <class T, int K>
GEORES_HOST_DEVICE Vector<T, K> reflector(const Vector<T, K>& x) {
  auto [w, length] = normalise(x);
  if (length == T(0)) return {};
  w[0] += w[0] < T(0) ? T(-1) : T(1);
  return normalise(w).direction;
}

// Multiplies rows (or columns) first.. of h by I − 2wwᵀ, restricted to low..high in the other
// index.
template <class T, int N, int K>
GEORES_HOST_DEVICE constexpr void reflect_rows(Matrix<T, N>& h, const Vector<T, K>& w, int first,
                                               int low, int high) {
  for (int j = low; j <= high; ++j) {
    T sum = 0;
    for (int k = 0; k < K && first + k < N; ++k) sum += w[k] * h(first + k, j);
    for (int k = 0; k < K && first + k < N; ++k) h(first + k, j) -= T(2) * sum * w[k];
  }
}

template <class T, int N, int K>
GEORES_HOST_DEVICE constexpr void reflect_columns(Matrix<T, N>& h, const Vector<T, K>& w, int first,
                                                  int low, int high) {
  for (int i = low; i <= high; ++i) {
    T sum = 0;
    for (int k = 0; k < K && first + k < N; ++k) sum += w[k] * h(i, first + k);
    for (int k = 0; k < K && first + k < N; ++k) h(i, first + k) -= T(2) * sum * w[k];
  }
}

template <class T, int N>
GEORES_HOST_DEVICE void reduce_to_hessenberg(Matrix<T, N>& h) {
  for (int p = 0; p + 2 < N; ++p) {
    Vector<T, N> below{};
    for (int i = p + 1; i < N; ++i) below[i - p - 1] = h(i, p);
    const auto w = reflector(below);
    reflect_rows(h, w, p + 1, 0, N - 1);
    reflect_columns(h, w, p + 1, 0, N - 1);
    for (int i = p + 2; i < N; ++i) h(i, p) = T(0);
  }
}

// One double-shift sweep over the unreduced block low..high; the shifts are given by their sum and
// product.
template <class T, int N>
GEORES_HOST_DEVICE void francis_sweep(Matrix<T, N>& h, int low, int high, T sum, T product) {
  Vector<T, 3> bulge{};
  bulge[0] = h(low, low) * (h(low, low) - sum) + product + h(low, low + 1) * h(low + 1, low);
  bulge[1] = h(low + 1, low) * (h(low, low) + h(low + 1, low + 1) - sum);
  bulge[2] = h(low + 1, low) * h(low + 2, low + 1);
  for (int k = low; k < high; ++k) {
    if (k + 2 > high) bulge[2] = T(0);
    const auto w = reflector(bulge);
    reflect_rows(h, w, k, k > low ? k - 1 : low, high);
    reflect_columns(h, w, k, low, k + 3 < high ? k + 3 : high);
    if (k > low) {
      h(k + 1, k - 1) = T(0);
      if (k + 2 <= high) h(k + 2, k - 1) = T(0);
    }
    bulge[0] = h(k + 1, k);
    bulge[1] = k + 2 <= high ? h(k + 2, k) : T(0);
    bulge[2] = k + 3 <= high ? h(k + 3, k) : T(0);
  }
}

// The two eigenvalues of the block at (i, i); the one nearer to d is computed without cancellation.
template <class T, int N>
GEORES_HOST_DEVICE void eigenvalues_of_pair(const Matrix<T, N>& h, int i,
                                            Eigenvalues<T, N>& result) {
  const T a = h(i, i), b = h(i, i + 1), c = h(i + 1, i), d = h(i + 1, i + 1);
  const T half = (a - d) / T(2), centre = (a + d) / T(2);
  const T discriminant = half * half + b * c;
  if (discriminant < T(0)) {
    result.real[i] = result.real[i + 1] = centre;
    result.imaginary[i] = square_root(-discriminant);
    result.imaginary[i + 1] = -result.imaginary[i];
    return;
  }
  const T away = half < T(0) ? half - square_root(discriminant) : half + square_root(discriminant);
  result.real[i] = d + away;
  result.real[i + 1] = away == T(0) ? d : d - b * c / away;
  result.imaginary[i] = result.imaginary[i + 1] = T(0);
}

}  // namespace detail

template <class T, int N>
GEORES_HOST_DEVICE Eigenvalues<T, N> eigenvalues(Matrix<T, N> h) {
  constexpr int most_sweeps = 60;  // per eigenvalue; three or four are usual
  Eigenvalues<T, N> result{};
  result.converged = true;
  detail::reduce_to_hessenberg(h);
  const T negligible = T(N) * Precision<T>::epsilon * largest_entry(h);
  int high = N - 1, sweeps = 0;
  while (high >= 0) {
    // Finds the block low..high without a negligible subdiagonal entry. An entry is negligible if
    // it is small against the whole matrix: compared with its neighbours alone, defective and
    // nilpotent matrices would never deflate.
    int low = high;
    while (low > 0 && absolute(h(low, low - 1)) > negligible) --low;
    if (low == high) {
      result.real[high] = h(high, high);
      result.imaginary[high] = h(high, high) - h(high, high);  // 0, or NaN
      --high, sweeps = 0;
    } else if (low + 1 == high) {
      detail::eigenvalues_of_pair(h, low, result);
      high -= 2, sweeps = 0;
    } else if (sweeps == most_sweeps) {
      result.converged = false;
      result.real[high] = h(high, high);
      --high, sweeps = 0;
    } else {
      ++sweeps;
      T sum = h(high - 1, high - 1) + h(high, high);
      T product = h(high - 1, high - 1) * h(high, high) - h(high - 1, high) * h(high, high - 1);
      detail::eigenvalues_of_pair(h, high - 1, result);
      if (result.imaginary[high] == T(0)) {
        // With two real shifts, take the nearer one twice: using both stalls on a spectrum {a, a,
        // b, b}.
        const T one = result.real[high - 1], other = result.real[high], corner = h(high, high);
        const T nearer = absolute(one - corner) < absolute(other - corner) ? one : other;
        sum = T(2) * nearer;
        product = nearer * nearer;
      }
      if (sweeps % 10 == 0) {  // an exceptional shift, for matrices that cycle (permutations)
        const T push = absolute(h(high, high - 1)) + absolute(h(high - 1, high - 2));
        sum = T(1.5) * push;
        product = push * push;
      }
      detail::francis_sweep(h, low, high, sum, product);
    }
  }
  for (int i = 0; i < N; ++i)
    if (!is_finite(result.real[i])) result.converged = false;
  return result;
}

}  // namespace geores::manifold
