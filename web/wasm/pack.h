// Between the plain arrays of an export and the matrices of manifold/.
#pragma once

#include "geores/manifold/algebra/matrix.h"
#include "geores/manifold/algebra/random.h"
#include "web/wasm/exports.h"

namespace geores::web {

// Row by row, from `to` on.
template <class T, int R, int C>
void pack(const manifold::Matrix<T, R, C>& a, double* to) {
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) *to++ = static_cast<double>(a(i, j));
}

template <class T, int N>
void pack(const manifold::Vector<T, N>& x, double* to) {
  for (int i = 0; i < N; ++i) to[i] = static_cast<double>(x[i]);
}

template <class To, class From, int R, int C>
manifold::Matrix<To, R, C> converted(const manifold::Matrix<From, R, C>& a) {
  manifold::Matrix<To, R, C> result{};
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < C; ++j) result(i, j) = static_cast<To>(a(i, j));
  return result;
}

template <class To, class From, int N>
manifold::Vector<To, N> converted(const manifold::Vector<From, N>& x) {
  manifold::Vector<To, N> result{};
  for (int i = 0; i < N; ++i) result[i] = static_cast<To>(x[i]);
  return result;
}

inline constexpr double pi = 3.141592653589793238462643383279502884;

// (cos, sin) of an angle in degrees, exact at whole quarter turns.
inline manifold::Vector<double, 2> direction(double degrees) {
  const double quarters = degrees / 90;
  if (quarters == static_cast<int>(quarters)) {
    const int quarter = ((static_cast<int>(quarters) % 4) + 4) % 4;
    return {{quarter == 0   ? 1.0
             : quarter == 2 ? -1.0
                            : 0.0,
             quarter == 1   ? 1.0
             : quarter == 3 ? -1.0
                            : 0.0}};
  }
  const double radians = degrees * (pi / 180);
  return {{manifold::cosine(radians), manifold::sine(radians)}};
}

inline manifold::SplitMix64 seeded(double seed) {
  return manifold::SplitMix64(static_cast<unsigned long long>(seed));
}

}  // namespace geores::web
