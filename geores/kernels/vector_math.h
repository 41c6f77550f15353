// exp, erf and GELU lane by lane. float: own polynomials, a few units in the last place, a division
// and an exponential for GELU and its slope together. double: the C library, one lane at a time,
// exact to the last digits; it serves verification, not speed. NaN passes through.
#pragma once

#include <bit>
#include <cmath>

#include "geores/kernels/simd.h"

namespace geores::kernels {

// exp(x), |relative error| < 2e-7; below −87 it stays at exp(−87) ≈ 1.6e-38.
inline Vec<float> exponential(Vec<float> x) {
  x = x < -87.0f ? Vec<float>{} - 87.0f : x;
  x = x > 88.0f ? Vec<float>{} + 88.0f : x;
  // Adding 1.5·2²³ rounds to an integer, which then stands in the low bits.
  const Vec<float> shifted = x * 1.44269504f + 12582912.0f;
  const Vec<float> n = shifted - 12582912.0f;
  const Vec<float> r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vec<float> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  using Bits = VectorOf<float>::Bits;
  return std::bit_cast<Vec<float>>(std::bit_cast<Bits>(p) + (std::bit_cast<Bits>(shifted) << 23));
}

inline Vec<double> exponential(const Vec<double>& x) {
  Vec<double> y;
  for (int i = 0; i < kLanes<double>; ++i) y[i] = std::exp(x[i]);
  return y;
}

// GELU(x) = x Φ(x) and its slope Φ(x) + x φ(x).
template <class T>
struct Gelu {
  Vec<T> value, slope;
};

// Φ by Abramowitz & Stegun 7.1.26, absolute error 7.5e-8: half a unit in the last place of 1.
inline Gelu<float> gelu(const Vec<float>& x) {
  const Vec<float> magnitude = x < 0.0f ? -x : x;
  const Vec<float> gauss = exponential(-0.5f * x * x);
  const Vec<float> t = 1.0f / (1.0f + 0.23164190f * magnitude);
  Vec<float> p = t * 1.061405429f - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const Vec<float> tail = 0.5f * p * t * gauss;  // Φ(−|x|)
  const Vec<float> phi = x < 0.0f ? tail : 1.0f - tail;
  return {x * phi, phi + x * gauss * 0.398942280f};
}

inline Gelu<double> gelu(const Vec<double>& x) {
  Gelu<double> result;
  for (int i = 0; i < kLanes<double>; ++i) {
    const double phi = 0.5 * std::erfc(-x[i] * M_SQRT1_2);
    result.value[i] = x[i] * phi;
    result.slope[i] = phi + x[i] * std::exp(-0.5 * x[i] * x[i]) * 0.39894228040143267794;
  }
  return result;
}

}  // namespace geores::kernels
