#include "geores/model/recursive/halting.h"

#include <cmath>

namespace geores {
namespace {

int64_t as_signed(uint64_t bits) { return static_cast<int64_t>(bits); }

// A logical right shift by `count`; int64 only has the arithmetic one.
Tensor shifted_down(const Tensor& x, int64_t count) {
  return x.bitwise_right_shift(count).bitwise_and((int64_t{1} << (64 - count)) - 1);
}

Tensor hashed(const Tensor& numbers) {
  auto z = numbers + as_signed(0x9E3779B97F4A7C15u);
  z = (z ^ shifted_down(z, 30)) * as_signed(0xBF58476D1CE4E5B9u);
  z = (z ^ shifted_down(z, 27)) * as_signed(0x94D049BB133111EBu);
  return z ^ shifted_down(z, 31);
}

}  // namespace

Tensor uniform_from(const Tensor& numbers, int64_t salt) {
  const auto bits = shifted_down(hashed(hashed(numbers) + salt), 11);  // 53 of them
  return bits.to(torch::kFloat64) * std::ldexp(1.0, -53);
}

Tensor first_draws(int64_t rows, int64_t seed) {
  // 2^40 draws for each row exceed any run.
  return torch::arange(rows, torch::kInt64) * (int64_t{1} << 40) +
         hashed(torch::full({1}, seed, torch::kInt64));
}

Tensor exploration_minimum(const Tensor& draws, double probability, int64_t most) {
  if (probability <= 0 || most < 2) return torch::zeros_like(draws);
  const auto explores = uniform_from(draws, 1) < probability;
  const auto least =
      2 + (uniform_from(draws, 2) * static_cast<double>(most - 1)).floor().to(torch::kInt64);
  return least * explores.to(torch::kInt64);
}

Tensor halted_after(const Tensor& steps, const Tensor& wants, const Tensor& least, int64_t most) {
  auto halted = steps >= most;
  if (most <= 1) return halted;
  return halted.logical_or(wants).logical_and(steps >= least);
}

}  // namespace geores
