#include "geores/train/optimizer/adam_atan2.h"

#include <cmath>

#include "geores/ops/training/scalar.h"

namespace geores {

AdamAtan2::AdamAtan2(FlatParameters& parameters, const OptimizerOptions& options)
    : Optimizer(parameters, options) {}

Optimizer::Rates AdamAtan2::rates(double learning_rate, int64_t t) const {
  const auto one = [&](double value) {
    // Beyond the type's range a rate becomes infinite; torch::full of that type would throw.
    return torch::full({1}, value, torch::kFloat64)
        .to(parameters_.values().options().requires_grad(false));
  };
  const auto count = static_cast<double>(t);
  return {.learning_rate = one(learning_rate),
          .bias1 = one(1 - std::pow(options_.beta1, count)),
          .bias2 = one(1 - std::pow(options_.beta2, count))};
}

Tensor AdamAtan2::step(double learning_rate) {
  const torch::NoGradGuard no_grad;
  const auto norm = parameters_.gradients().norm();
  if (is_known_not_finite(norm)) return norm;
  update(rates(learning_rate, ++steps_), norm);
  return norm;
}

Tensor AdamAtan2::step(const Rates& rates) {
  const torch::NoGradGuard no_grad;
  const auto norm = parameters_.gradients().norm();
  update(rates, norm);
  return norm;
}

void AdamAtan2::update(const Rates& rates, const Tensor& norm) {
  auto &values = parameters_.values(), &gradients = parameters_.gradients();
  if (options_.clip > 0) gradients.mul_((options_.clip / (norm + 1e-6)).clamp_max(1.0));
  values.mul_(1 - rates.learning_rate * options_.weight_decay);
  first_moment_.lerp_(gradients, 1 - options_.beta1);
  second_moment_.lerp_(gradients.square(), 1 - options_.beta2);
  const auto angle = torch::atan2(first_moment_, second_moment_.sqrt() / rates.bias2.sqrt());
  values.sub_(angle.mul_(rates.learning_rate / rates.bias1));
  parameters_.optimizer_wrote(/*left_ready=*/false);
}

}  // namespace geores
