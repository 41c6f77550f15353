// x Φ(x) and its slope, Φ the normal distribution.
#pragma once

namespace geores::kernels::device {

template <class T>
__device__ inline T normal_distribution(T x) {
  return T(0.5) * (T(1) + erf(x * T(0.70710678118654752440)));
}

template <class T>
__device__ inline T gelu(T x) {
  return x * normal_distribution(x);
}

template <class T>
__device__ inline T gelu_slope(T x) {
  constexpr T density = T(0.39894228040143267794);  // 1/√(2π)
  return normal_distribution(x) + x * density * exp(T(-0.5) * x * x);
}

// The same for results that are rounded to bfloat16 anyway: erf to 1.5e-7 (Abramowitz and Stegun,
// 7.1.26), from the one exponential that the slope needs too.
struct RoughNormal {
  float distribution, scaled_density;  // Φ(x), x φ(x)

  __device__ explicit RoughNormal(float x) {
    const float power = __expf(-0.5f * x * x);
    const float t = __fdividef(1.0f, 1.0f + 0.3275911f * 0.70710678f * fabsf(x));
    const float tail =
        0.5f * power * t *
        (0.254829592f +
         t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    distribution = x < 0 ? tail : 1 - tail;
    scaled_density = 0.39894228f * x * power;
  }
};

}  // namespace geores::kernels::device
