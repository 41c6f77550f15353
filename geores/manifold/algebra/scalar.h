// Scalar functions that mean the same on the host, in CUDA device code and in freestanding
// WebAssembly. No standard header is included: wasm32 without a sysroot has none.
//
// In WebAssembly sqrt, abs and the arithmetic are instructions. exp, log, tanh, atan, sin and cos
// become imports `env.exp`, `env.log`, ... of type f64 -> f64, for which JavaScript's Math
// functions can be given directly (float is converted to double, so no `expf` is needed). Compile
// with -mbulk-memory, which turns memcpy and memset into instructions too.
//
// Every function here returns NaN for NaN: a broken generator gives NaN and never looks like a
// valid operator. Do not compile with -ffast-math.
#pragma once

#if defined(__CUDACC__)
#define GEORES_HOST_DEVICE __host__ __device__
// Before a template that a kernel instantiates with functions of a GPU alone: nvcc refuses it otherwise.
#define GEORES_DEVICE_ARGUMENTS _Pragma("nv_exec_check_disable")
#else
#define GEORES_HOST_DEVICE
#define GEORES_DEVICE_ARGUMENTS
#endif

namespace geores::manifold {

#if defined(__CUDACC__)
#define GEORES_SCALAR_FUNCTION(name, function)                               \
  GEORES_HOST_DEVICE inline float name(float x) { return ::function##f(x); } \
  GEORES_HOST_DEVICE inline double name(double x) { return ::function(x); }
#elif defined(__wasm__)
#define GEORES_SCALAR_FUNCTION(name, function)                                       \
  inline float name(float x) { return static_cast<float>(__builtin_##function(x)); } \
  inline double name(double x) { return __builtin_##function(x); }
#else
#define GEORES_SCALAR_FUNCTION(name, function)                      \
  inline float name(float x) { return __builtin_##function##f(x); } \
  inline double name(double x) { return __builtin_##function(x); }
#endif

GEORES_SCALAR_FUNCTION(square_root, sqrt)
GEORES_SCALAR_FUNCTION(exponential, exp)
GEORES_SCALAR_FUNCTION(logarithm, log)
GEORES_SCALAR_FUNCTION(hyperbolic_tangent, tanh)
GEORES_SCALAR_FUNCTION(arctangent, atan)
GEORES_SCALAR_FUNCTION(sine, sin)
GEORES_SCALAR_FUNCTION(cosine, cos)
#undef GEORES_SCALAR_FUNCTION

// ε, the gap between 1 and the next larger number, and the smallest number with full precision.
template <class T>
struct Precision;

template <>
struct Precision<float> {
  static constexpr float epsilon = 0x1p-23f;
  static constexpr float smallest_normal = 0x1p-126f;
};

template <>
struct Precision<double> {
  static constexpr double epsilon = 0x1p-52;
  static constexpr double smallest_normal = 0x1p-1022;
};

template <class T>
GEORES_HOST_DEVICE constexpr T absolute(T x) {
  return x < T(0) ? -x : x;
}

template <class T>
GEORES_HOST_DEVICE constexpr bool is_finite(T x) {
  return x - x == T(0);
}

// The larger of two numbers; NaN if either is NaN (fmax would drop it).
template <class T>
GEORES_HOST_DEVICE constexpr T larger(T a, T b) {
  return (b > a || b != b) ? b : a;
}

template <class T>
GEORES_HOST_DEVICE constexpr T smaller(T a, T b) {
  return (b < a || b != b) ? b : a;
}

// NaN stays NaN.
template <class T>
GEORES_HOST_DEVICE constexpr T clamp(T x, T low, T high) {
  return x < low ? low : (x > high ? high : x);
}

// value, or 0 where |x| > bound.
template <class T>
GEORES_HOST_DEVICE constexpr T zero_beyond(T x, T bound, T value) {
  return absolute(x) > bound ? T(0) : value;
}

template <class T>
GEORES_HOST_DEVICE constexpr T one_for_zero(T x) {
  return x == T(0) ? T(1) : x;
}

// The power of two in (|x|/2, |x|]: dividing by it is exact. Below the normal range it is the
// smallest normal number; for NaN and Inf it is Inf.
GEORES_HOST_DEVICE constexpr float power_of_two_below(float x) {
  const auto power = __builtin_bit_cast(float, __builtin_bit_cast(unsigned int, x) & 0x7f800000u);
  return power == 0.0f ? Precision<float>::smallest_normal : power;
}

GEORES_HOST_DEVICE constexpr double power_of_two_below(double x) {
  const auto power =
      __builtin_bit_cast(double, __builtin_bit_cast(unsigned long long, x) & 0x7ff0000000000000ull);
  return power == 0.0 ? Precision<double>::smallest_normal : power;
}

template <class T>
GEORES_HOST_DEVICE constexpr void exchange(T& a, T& b) {
  const T held = a;
  a = b;
  b = held;
}

// a·b·c, multiplying the smallest with the largest first: it overflows or underflows only if the
// result does.
template <class T>
GEORES_HOST_DEVICE constexpr T product_of_three(T a, T b, T c) {
  if (absolute(a) > absolute(b)) exchange(a, b);
  if (absolute(b) > absolute(c)) exchange(b, c);
  if (absolute(a) > absolute(b)) exchange(a, b);
  return a * c * b;
}

#if defined(__CUDA_ARCH__) || defined(__FMA__) || defined(__FP_FAST_FMA) || \
    defined(__ARM_FEATURE_FMA)
#define GEORES_HAS_FMA 1
#endif

namespace detail {

#if defined(GEORES_HAS_FMA)
GEORES_HOST_DEVICE inline double fused(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
  return ::fma(a, b, c);
#else
  return __builtin_fma(a, b, c);
#endif
}
#else
// The error of a rounded product, exactly: a·b = product + error (Dekker 1971; Veltkamp's
// splitting).
constexpr double product_error(double a, double b, double product) {
  constexpr double splitter = 0x1p27 + 1;
  const double a_high = a * splitter - (a * splitter - a), a_low = a - a_high;
  const double b_high = b * splitter - (b * splitter - b), b_low = b - b_high;
  return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
}
#endif

}  // namespace detail

// a·b − c·d to within two units in the last place of the *difference*, and exactly 0 if the
// products are equal (Kahan). The plain expression loses all digits if the two products nearly
// agree. |a|, |b|, |c| and |d| must be well inside the range of T.
GEORES_HOST_DEVICE inline double difference_of_products(double a, double b, double c, double d) {
#if defined(GEORES_HAS_FMA)
  const double product = c * d;
  return detail::fused(a, b, -product) - detail::fused(c, d, -product);
#else
  const double left = a * b, right = c * d;
  return (left - right) + (detail::product_error(a, b, left) - detail::product_error(c, d, right));
#endif
}

GEORES_HOST_DEVICE inline float difference_of_products(float a, float b, float c, float d) {
#if defined(__CUDA_ARCH__)
  const float product = c * d;
  return ::fmaf(a, b, -product) - ::fmaf(c, d, -product);
#else
  return static_cast<float>(static_cast<double>(a) * b - static_cast<double>(c) * d);
#endif
}

}  // namespace geores::manifold
