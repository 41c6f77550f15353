// A vector of numbers that behaves like one number, so that manifold/'s algebra runs on several
// tokens at once, one token in each lane. Code that branches on values cannot use it.
#pragma once

#include <type_traits>

#include "geores/kernels/cpu/vector_math.h"
#include "geores/manifold/algebra/matrix.h"

namespace geores::kernels {

template <class T>
struct Lanes {
  Vec<T> v;

  Lanes() = default;
  Lanes(const Vec<T>& values) : v(values) {}
  template <class S>
  requires std::is_arithmetic_v<S> Lanes(S x) : v(broadcast(static_cast<T>(x))) {}

  friend Lanes operator+(const Lanes& a, const Lanes& b) { return a.v + b.v; }
  friend Lanes operator-(const Lanes& a, const Lanes& b) { return a.v - b.v; }
  friend Lanes operator*(const Lanes& a, const Lanes& b) { return a.v * b.v; }
  friend Lanes operator/(const Lanes& a, const Lanes& b) { return a.v / b.v; }
  friend Lanes operator-(const Lanes& a) { return -a.v; }
  Lanes& operator+=(const Lanes& b) { return *this = *this + b; }
  Lanes& operator-=(const Lanes& b) { return *this = *this - b; }
  Lanes& operator*=(const Lanes& b) { return *this = *this * b; }
};

// manifold/ calls these by argument-dependent lookup, as it calls its own functions of numbers.
template <class T>
inline Lanes<T> exponential(const Lanes<T>& x) {
  return exponential(x.v);
}

template <class T>
inline Lanes<T> logarithm(const Lanes<T>& x) {
  return logarithm(x.v);
}

template <class T>
inline Lanes<T> square_root(const Lanes<T>& x) {
  Vec<T> root{};
  for (int i = 0; i < kLanes<T>; ++i) root[i] = std::sqrt(x.v[i]);
  return root;
}

template <class T>
inline Lanes<T> larger(const Lanes<T>& a, const Lanes<T>& b) {
  const Vec<T> number = a.v > b.v ? a.v : b.v;  // or the NaN of b
  return Vec<T>(a.v != a.v ? a.v : number);
}

template <class T>
inline Lanes<T> clamp(const Lanes<T>& x, const Lanes<T>& low, const Lanes<T>& high) {
  const Vec<T> raised = x.v < low.v ? low.v : x.v;
  return Vec<T>(raised > high.v ? high.v : raised);
}

template <class T>
inline Lanes<T> zero_beyond(const Lanes<T>& x, const Lanes<T>& bound, const Lanes<T>& value) {
  const Vec<T> size = x.v < T(0) ? -x.v : x.v;
  return Vec<T>(size > bound.v ? Vec<T>{} : value.v);
}

template <class T>
inline Lanes<T> one_for_zero(const Lanes<T>& x) {
  return Vec<T>(x.v == T(0) ? broadcast(T(1)) : x.v);
}

// Reads R × C values of each of up to kLanes tokens; tokens are `stride` apart. Lanes
// beyond `tokens` repeat the first token.
template <int R, int C, class T>
inline manifold::Matrix<Lanes<T>, R, C> gather(const T* values, int64_t stride, int64_t tokens) {
  manifold::Matrix<Lanes<T>, R, C> m;
  for (int lane = 0; lane < kLanes<T>; ++lane) {
    const T* from = values + (lane < tokens ? lane : 0) * stride;
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < C; ++j) m.at[i][j].v[lane] = from[i * C + j];
  }
  return m;
}

template <int R, int C, class T>
inline void scatter(const manifold::Matrix<Lanes<T>, R, C>& m, T* values, int64_t stride,
                    int64_t tokens) {
  for (int lane = 0; lane < tokens; ++lane)
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < C; ++j) values[lane * stride + i * C + j] = m.at[i][j].v[lane];
}

}  // namespace geores::kernels
