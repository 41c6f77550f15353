// GELU(x) = x Φ(x) and its slope, where Φ is the normal distribution.
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

// Two GPU instructions that C++ has no name for: 2^x to 2 units in the last place, with results
// below 2^-126 flushed to zero, and a minimum that is NaN if x is.
__device__ inline float rough_power_of_2(float x) {
#ifdef GEORES_EMULATED
  return std::exp2(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}
__device__ inline float at_most(float x, float most) {
#ifdef GEORES_EMULATED
  return x > most ? most : x;
#else
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(most));
  return y;
#endif
}

// GELU for bfloat16, where its instructions decide the time, above all at the end of a product: one
// power of 2 and no division. Both functions keep NaN and treat |x| > 16 as 16: the tails are 0 there, and
// infinity times 0 cannot occur.
struct PolynomialGelu {
  // max(x, 0) − |x| Q(|x|) with Q = 1 − Φ = 2^polynomial, to 6e-6 of Q up to |x| = 6. Beyond that
  // both Q and the polynomial's result are below 1e-9. The value is within 6.2e-7 of the exact one.
  static __device__ float value(float x) {
    const float a = at_most(fabsf(x), 16.0f);
    float p = -1.8348481350876681e-06f;
    p = fmaf(p, a, 6.159900945628395e-05f);
    p = fmaf(p, a, -0.0009305302739987246f);
    p = fmaf(p, a, 0.008507911015410666f);
    p = fmaf(p, a, -0.05396010657200056f);
    p = fmaf(p, a, -0.45846436097733156f);
    p = fmaf(p, a, -1.151251055207603f);
    p = fmaf(p, a, -0.9999952939984342f);
    return fmaf(-a, rough_power_of_2(p), fmaxf(x, 0.0f));
  }

  // ½ ± (½ − D(|x|)) with D(a) = Q(a) − a φ(a) = exp(−a²/2) · polynomial. The slope is within
  // 1.2e-6 of the exact one.
  static __device__ float slope(float x) {
    const float a = at_most(fabsf(x), 16.0f);
    float p = 3.790168269993073e-05f;
    p = fmaf(p, a, -0.000615364952040669f);
    p = fmaf(p, a, 0.004399698851280884f);
    p = fmaf(p, a, -0.018824716130749816f);
    p = fmaf(p, a, 0.05614879585253023f);
    p = fmaf(p, a, -0.12997188009602556f);
    p = fmaf(p, a, 0.2492790534601926f);
    p = fmaf(p, a, -0.7978180972206036f);
    p = fmaf(p, a, 0.4999989936131407f);
    constexpr float half_log2_e = 0.72134752f;
    const float half = fmaf(-p, rough_power_of_2(-half_log2_e * a * a), 0.5f);
    const auto sign = __float_as_uint(x) & 0x80000000u;
    return 0.5f + __uint_as_float(__float_as_uint(half) ^ sign);
  }
};

}  // namespace geores::kernels::device
