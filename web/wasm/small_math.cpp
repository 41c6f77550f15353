// exp and tanh for the predictor, instead of the C library's: these need no table of two kilobytes.
// exp is fdlibm's (e_exp.c): x = k ln 2 + r, |r| ≤ ln 2/2, and a rational function of r, within one
// unit in the last place. tanh follows from it, exact to 2e-16 (not relative to a tiny value).
#include <cstdint>

namespace {

double power_of_two(int k) {
  const auto bits = static_cast<std::uint64_t>(k + 1023) << 52;
  return __builtin_bit_cast(double, bits);
}

}  // namespace

extern "C" {

double exp(double x) {
  if (x != x || x > 709.79) return x != x ? x : __builtin_inf();
  if (x < -745.2) return 0;
  const double k = __builtin_rint(x * 1.44269504088896338700);
  const double high = x - k * 6.93147180369123816490e-01, low = k * 1.90821492927058770002e-10;
  const double r = high - low, t = r * r;
  constexpr double polynomial[] = {4.13813679705723846039e-08, -1.65339022054652515390e-06,
                                   6.61375632143793436117e-05, -2.77777777770155933842e-03,
                                   1.66666666666666019037e-01};
  double sum = 0;
  for (const double coefficient : polynomial) sum = (sum + coefficient) * t;
  const double c = r - sum, y = 1 - ((low - r * c / (2 - c)) - high);
  const int half = static_cast<int>(k) / 2;  // 2^k in two steps, so that neither overflows
  return y * power_of_two(half) * power_of_two(static_cast<int>(k) - half);
}

double tanh(double x) {
  const double size = 1 - 2 / (exp(2 * __builtin_fabs(x)) + 1);
  return __builtin_copysign(size, x);
}
}
