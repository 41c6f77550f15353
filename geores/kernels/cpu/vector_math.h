// exp, 2ˣ, log and GELU, lane by lane. float: polynomials accurate to a few units in the last place;
// GELU and its slope share one exponential and need no division. double: the C library, one lane at
// a time, accurate to the last digits; double is for verification, not for speed. NaN stays NaN.
#pragma once

#include <bit>
#include <cmath>

#include "geores/kernels/cpu/simd.h"

namespace geores::kernels {

// p · 2ⁿ, where n is the integer in the low bits of `shifted` after 1.5·2²³ was added. The
// arithmetic is unsigned, because unused lanes may hold anything.
inline Vec<float> times_power_of_two(const Vec<float>& p, const Vec<float>& shifted) {
  using Words = VectorOf<float>::Words;
  return std::bit_cast<Vec<float>>(std::bit_cast<Words>(p) + (std::bit_cast<Words>(shifted) << 23));
}

// exp(x), |relative error| < 2e-7; below −87 the result stays at exp(−87) ≈ 1.6e-38.
inline Vec<float> exponential(Vec<float> x) {
  x = x < -87.0f ? Vec<float>{} - 87.0f : x;
  x = x > 88.0f ? Vec<float>{} + 88.0f : x;
  // Adding 1.5·2²³ rounds to an integer and leaves it in the low bits.
  const Vec<float> shifted = x * 1.44269504f + 12582912.0f;
  const Vec<float> n = shifted - 12582912.0f;
  const Vec<float> r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vec<float> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return times_power_of_two(p, shifted);
}

// 2ˣ for −126 <= x <= 0, |relative error| < 2e-7: cheaper than exp, for softmax and GELU.
inline Vec<float> power_of_two_within_range(const Vec<float>& x) {
  const Vec<float> shifted = x + 12582912.0f;
  const Vec<float> r = x - (shifted - 12582912.0f);
  const Vec<float> r2 = r * r;
  const Vec<float> low = r * 6.931469776e-1f + 1.0f;
  const Vec<float> middle = r * 5.550733747e-2f + 2.402224208e-1f;
  const Vec<float> high = r * 1.326472689e-3f + 9.671512910e-3f;
  const Vec<float> p = (high * r2 + middle) * r2 + low;
  return times_power_of_two(p, shifted);
}

// 2ˣ for all x <= 0; below −126 the result stays at 2⁻¹²⁶ ≈ 1.2e-38.
inline Vec<float> power_of_two(const Vec<float>& x) {
  return power_of_two_within_range(x < -126.0f ? Vec<float>{} - 126.0f : x);
}

// These start from values: GCC 12 calls a vector that is filled lane by lane uninitialized on x86_64.
inline Vec<double> power_of_two(const Vec<double>& x) {
  auto y = x;
  for (int i = 0; i < kLanes<double>; ++i) y[i] = std::exp2(x[i]);
  return y;
}

inline Vec<double> exponential(const Vec<double>& x) {
  auto y = x;
  for (int i = 0; i < kLanes<double>; ++i) y[i] = std::exp(x[i]);
  return y;
}

// log(x) for normal x > 0, NaN and Inf: x = 2ⁿ m with m in [√½, √2), and a polynomial in m − 1 (Cephes' logf).
// |error| < 2e-7 max(1, |log x|).
inline Vec<float> logarithm(const Vec<float>& x) {
  using Words = VectorOf<float>::Words;
  // Bits relative to those of √½: the bits above the mantissa are n.
  const Words above = std::bit_cast<Words>(x) - 0x3f3504f3u;
  // n + 2⁷ has no sign to care for; 1.5·2²³ turns a small integer into a float and back.
  const Words exponent = ((above + 0x40000000u) >> 23) + 0x4b400000u;
  const Vec<float> n = std::bit_cast<Vec<float>>(exponent) - (12582912.0f + 128.0f);
  const Vec<float> r = std::bit_cast<Vec<float>>((above & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  Vec<float> p = r * 7.0376836292e-2f - 1.1514610310e-1f;
  p = p * r + 1.1676998740e-1f;
  p = p * r - 1.2420140846e-1f;
  p = p * r + 1.4249322787e-1f;
  p = p * r - 1.6668057665e-1f;
  p = p * r + 2.0000714765e-1f;
  p = p * r - 2.4999993993e-1f;
  p = p * r + 3.3333331174e-1f;
  const Vec<float> r2 = r * r;
  const Vec<float> y = n * 0.693359375f + (r - (r2 * 0.5f - (p * r * r2 - n * 2.12194440e-4f)));
  return x - x == 0.0f ? y : x;  // NaN and Inf
}

inline Vec<double> logarithm(const Vec<double>& x) {
  auto y = x;
  for (int i = 0; i < kLanes<double>; ++i) y[i] = std::log(x[i]);
  return y;
}

// GELU(x) = x Φ(x) and its slope Φ(x) + x φ(x).
template <class T>
struct Gelu {
  Vec<T> value, slope;
};

// Φ(−m) = exp(−m²/2) P(m), where the polynomial P approximates Mills' ratio over √2π. The absolute
// error of Φ is below 2e-8 up to m = 5.6; beyond that the exponential makes Φ vanish.
inline Gelu<float> gelu(const Vec<float>& x) {
  const Vec<float> magnitude = x < 0.0f ? -x : x;
  const Vec<float> m = magnitude > 9.0f ? Vec<float>{} + 9.0f : magnitude;
  const Vec<float> m2 = m * m, m4 = m2 * m2;
  const Vec<float> gauss = power_of_two_within_range(m2 * -0.721347520f);
  // The polynomial is evaluated in pairs, so that no step waits for all steps before it.
  const Vec<float> p01 = m * -0.398940604f + 0.499999983f;
  const Vec<float> p23 = m * -0.132805849f + 0.249972590f;
  const Vec<float> p45 = m * -2.54719729e-2f + 6.19240590e-2f;
  const Vec<float> p67 = m * -2.59015056e-3f + 9.00396794e-3f;
  const Vec<float> p89 = m * -8.47748143e-5f + 5.63672026e-4f;
  const Vec<float> p1011 = m * -3.15563249e-7f + 7.70920356e-6f;
  const Vec<float> low = p23 * m2 + p01, middle = p67 * m2 + p45, high = p1011 * m2 + p89;
  const Vec<float> tail = ((high * m4 + middle) * m4 + low) * gauss;  // Φ(−|x|)
  const Vec<float> below = tail - m * gauss * 0.398942280f;           // the slope at −|x|
  return {(x < 0.0f ? Vec<float>{} : x) - m * tail, x < 0.0f ? below : 1.0f - below};
}

inline Gelu<double> gelu(const Vec<double>& x) {
  Gelu<double> result{x, x};
  for (int i = 0; i < kLanes<double>; ++i) {
    const double phi = 0.5 * std::erfc(-x[i] * M_SQRT1_2);
    result.value[i] = x[i] * phi;
    result.slope[i] = phi + x[i] * std::exp(-0.5 * x[i] * x[i]) * 0.39894228040143267794;
  }
  return result;
}

}  // namespace geores::kernels
