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

}  // namespace geores::kernels::device
