#include "lab/experiments/statistics.h"

#include <cmath>

namespace geores {
namespace {

// Lentz's method for the continued fraction of the incomplete beta function.
double beta_fraction(double a, double b, double x) {
  constexpr double tiny = 1e-300;
  const auto away_from_zero = [](double value) { return std::abs(value) < tiny ? tiny : value; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), result = d;
  for (int m = 1; m < 500; ++m) {
    const auto step = [&](double numerator) {
      d = 1 / away_from_zero(1 + numerator * d);
      c = away_from_zero(1 + numerator / c);
      result *= c * d;
    };
    step(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    step(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)));
    if (std::abs(c * d - 1) < 1e-15) break;
  }
  return result;
}

// I_x(a, b)
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const auto front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                              a * std::log(x) + b * std::log1p(-x));
  // The fraction converges fast on one side of the mean only; the other side follows by symmetry.
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace

Sample sample_of(const std::vector<double>& values) {
  Sample sample{.count = static_cast<int>(values.size())};
  if (values.empty()) return sample;
  double sum = 0, squares = 0;
  for (const auto value : values) sum += value;
  sample.mean = sum / sample.count;
  for (const auto value : values) squares += (value - sample.mean) * (value - sample.mean);
  if (sample.count > 1) sample.deviation = std::sqrt(squares / (sample.count - 1));
  return sample;
}

Welch welch_test(const Sample& a, const Sample& b) {
  const auto va = a.deviation * a.deviation / a.count, vb = b.deviation * b.deviation / b.count;
  const auto t = (b.mean - a.mean) / std::sqrt(va + vb);
  const auto freedom = (va + vb) * (va + vb) / (va * va / (a.count - 1) + vb * vb / (b.count - 1));
  return {t, freedom, student_two_sided(t, freedom)};
}

double student_two_sided(double t, double freedom) {
  if (std::isnan(t) || std::isnan(freedom)) return std::numeric_limits<double>::quiet_NaN();
  return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double share_of_pairs(const std::vector<double>& a, const std::vector<double>& b) {
  double won = 0;
  for (const auto x : a)
    for (const auto y : b) won += x < y ? 1 : (x == y ? 0.5 : 0);
  return won / static_cast<double>(a.size() * b.size());
}

}  // namespace geores
