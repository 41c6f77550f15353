// Operators on n streams that are orthogonal for all values of their generators: products of factors
//   G = F₁ F₂ … F_r,   each factor made from a few numbers, its generators               F, G (n, n)
//   reflections   H(k₁) H(k₂), H(k) = I − 2kkᵀ, k = p/‖p‖: a rotation of the plane span(k₁, k₂) by
//                 twice the angle between k₁ and k₂; with k₁ ⊥ k₂ by exactly π.   2n numbers p₁, p₂
//   unitary       the complex reflection I − (1 − e^{iφ}) k k†, k ∈ C^{n/2} of length one: streams j
//                 and j + n/2 are real and imaginary part of one complex stream.  n + 1 numbers p, φ
//   cayley        (I + M)⁻¹(I − M), M skew: every rotation without the eigenvalue −1.
//                                       n(n − 1)/2 numbers, the upper triangle of 2M row by row, which are
//                                       angles where they are small
// Invariants: FᵀF = I and det F = +1. H(k)ᵀH(k) = I − 4kkᵀ + 4k(kᵀk)kᵀ = I. With η = ik as a real vector,
// κ ⊥ η are unit vectors and the complex reflection is the rotation of their plane by φ:
//   I − (1 − cos φ)(κκᵀ + ηηᵀ) + sin φ (ηκᵀ − κηᵀ);
// it is I at φ = 0, and it negates the plane at φ = π. Where p = 0 a reflection is I.
//
// Cost: O(n²) for a reflection of either kind, O(n³) for a product or a Cayley map.
#pragma once

#include "geores/manifold/cayley_general.h"
#include "geores/manifold/householder.h"

namespace geores::manifold {

enum class IsometryFactor { reflections, unitary, cayley };

GEORES_HOST_DEVICE constexpr int generators_of(IsometryFactor factor, int n) {
  return factor == IsometryFactor::reflections
             ? 2 * n
             : (factor == IsometryFactor::unitary ? n + 1 : n * (n - 1) / 2);
}

// i k: multiplication by i of the complex vector whose real parts are the first n/2 values.
template <class T, int N>
GEORES_HOST_DEVICE constexpr Vector<T, N> times_i(const Vector<T, N>& k) {
  static_assert(N % 2 == 0);
  Vector<T, N> result{};
  for (int i = 0; i < N / 2; ++i) {
    result[i] = -k[i + N / 2];
    result[i + N / 2] = k[i];
  }
  return result;
}

template <class T, int N>
GEORES_HOST_DEVICE Matrix<T, N> complex_reflection(const Vector<T, N>& k, T phase) {
  const auto turned = times_i(k);
  const T c = cosine(phase), s = sine(phase);
  return identity<T, N>() - (T(1) - c) * (outer(k, k) + outer(turned, turned)) +
         s * (outer(turned, k) - outer(k, turned));
}

template <class T, int N>
struct ComplexReflectionGradient {
  Vector<T, N> k;
  T phase;
};

// From S = dL/dF, with κ = k and η = ik:
//   dκ = −(1 − c)(S + Sᵀ)κ + s(Sᵀ − S)η,  dη = −(1 − c)(S + Sᵀ)η + s(S − Sᵀ)κ,  dk = dκ − i dη
//   dφ = −s(κᵀSκ + ηᵀSη) + c(ηᵀSκ − κᵀSη)
template <class T, int N>
GEORES_HOST_DEVICE ComplexReflectionGradient<T, N> complex_reflection_backward(
    const Vector<T, N>& k, T phase, const Matrix<T, N>& cotangent) {
  const auto turned = times_i(k);
  const T c = cosine(phase), s = sine(phase);
  const auto sk = cotangent * k, st = cotangent * turned;
  const auto tk = transpose_times(cotangent, k), tt = transpose_times(cotangent, turned);
  const auto dk = (c - T(1)) * (sk + tk) + s * (tt - st);
  const auto dturned = (c - T(1)) * (st + tt) + s * (sk - tk);
  return {dk - times_i(dturned),
          -s * (dot(k, sk) + dot(turned, st)) + c * (dot(turned, sk) - dot(k, st))};
}

// The matrix M of a Cayley factor.
template <class T, int N, class S>
GEORES_HOST_DEVICE Matrix<T, N> skew_generator(const S* raw) {
  T entries[N * (N - 1) / 2];
  for (int i = 0; i < N * (N - 1) / 2; ++i) entries[i] = static_cast<T>(raw[i]) / 2;
  return skew_from_entries<T, N>(entries);
}

template <class T, int N, class S>
GEORES_HOST_DEVICE Polar<T, N> direction_at(const S* raw) {
  Vector<T, N> p{};
  for (int i = 0; i < N; ++i) p[i] = static_cast<T>(raw[i]);
  return normalise(p);
}

// One factor from its generators, computed in T; generators of type S.
template <class T, int N, class S>
GEORES_HOST_DEVICE Matrix<T, N> isometry_factor(IsometryFactor factor, const S* raw) {
  if (factor == IsometryFactor::cayley) return cayley_transform(skew_generator<T, N>(raw));
  const auto first = direction_at<T, N>(raw).direction;
  if constexpr (N % 2 == 0)
    if (factor == IsometryFactor::unitary) return complex_reflection(first, static_cast<T>(raw[N]));
  return householder(first) * householder(direction_at<T, N>(raw + N).direction);
}

// From S = dL/dF to draw, which is overwritten.
template <class T, int N, class S>
GEORES_HOST_DEVICE void isometry_factor_backward(IsometryFactor factor, const S* raw,
                                                 const Matrix<T, N>& cotangent, S* draw) {
  const auto write = [](const Vector<T, N>& d, S* to) {
    for (int i = 0; i < N; ++i) to[i] = static_cast<S>(d[i]);
  };
  if (factor == IsometryFactor::cayley) {
    T entries[N * (N - 1) / 2];
    const auto q = isometry_factor<T, N>(factor, raw);
    skew_from_entries_backward(cayley_transform_backward(q, cotangent), entries);
    for (int i = 0; i < N * (N - 1) / 2; ++i) draw[i] = static_cast<S>(entries[i] / 2);
    return;
  }
  const auto first = direction_at<T, N>(raw);
  if constexpr (N % 2 == 0)
    if (factor == IsometryFactor::unitary) {
      const auto d =
          complex_reflection_backward(first.direction, static_cast<T>(raw[N]), cotangent);
      write(normalise_backward(first, d.k), draw);
      draw[N] = static_cast<S>(d.phase);
      return;
    }
  const auto second = direction_at<T, N>(raw + N);
  const auto left = householder(first.direction), right = householder(second.direction);
  const auto through = [](const Polar<T, N>& k, const Matrix<T, N>& d) {
    return normalise_backward(k, delta_operator_backward(k.direction, T(2), d).k);
  };
  write(through(first, cotangent * right), draw);
  write(through(second, left * cotangent), draw + N);
}

// The product of `count` factors whose generators follow each other.
template <class T, int N, class S>
GEORES_HOST_DEVICE Matrix<T, N> isometry(IsometryFactor factor, const S* raw, int count) {
  const int size = generators_of(factor, N);
  auto product = isometry_factor<T, N>(factor, raw);
  for (int i = 1; i < count; ++i) product = product * isometry_factor<T, N>(factor, raw + i * size);
  return product;
}

// From S = dL/dG:  dF_i = L Rᵀ with L = (F₁ … F_{i−1})ᵀS and R = F_{i+1} … F_r. A factor's inverse is
// its transpose, so both go from factor to factor without a list of products.
template <class T, int N, class S>
GEORES_HOST_DEVICE void isometry_backward(IsometryFactor factor, const S* raw, int count,
                                          const Matrix<T, N>& cotangent, S* draw) {
  const int size = generators_of(factor, N);
  auto left = cotangent, right = isometry<T, N>(factor, raw, count);
  for (int i = 0; i < count; ++i) {
    const auto inverse = transpose(isometry_factor<T, N>(factor, raw + i * size));
    right = inverse * right;
    isometry_factor_backward(factor, raw + i * size, left * transpose(right), draw + i * size);
    left = inverse * left;
  }
}

}  // namespace geores::manifold
