#include "geores/train/optimizer/adamw.h"

#include <cmath>
#include <type_traits>

#include "geores/ops/run/execution.h"
#include "geores/ops/training/optimizer.h"
#include "geores/ops/training/scalar.h"

namespace geores {

AdamW::AdamW(FlatParameters& parameters, const OptimizerOptions& options)
    : Optimizer(parameters, options) {
  if (options.method == "muon") muon_.emplace(parameters, first_moment_, options.weight_decay);
}

Tensor AdamW::step(double learning_rate) {
  torch::NoGradGuard no_grad;
  const auto t = static_cast<double>(steps_ + 1);
  const auto bias1 = 1 - std::pow(options_.beta1, t), bias2 = 1 - std::pow(options_.beta2, t);
  if (muon_) muon_->before_adamw();
  const auto norm = runs_cpu_kernel(parameters_.values())
                        ? fused_step(learning_rate, bias1, bias2)
                        : composed_step(learning_rate, bias1, bias2);
  if (is_known_not_finite(norm)) return norm;
  ++steps_;
  if (muon_) muon_->after_adamw(learning_rate);
  parameters_.optimizer_wrote(/*left_ready=*/false);
  return norm;
}

Tensor AdamW::step(const Rates& rates) {
  torch::NoGradGuard no_grad;
  const bool kernel = runs_cuda_kernel(parameters_.values());
  if (muon_) muon_->before_adamw();
  const auto norm =
      kernel ? fused_step(rates) : composed_step(rates.learning_rate, rates.bias1, rates.bias2);
  if (muon_) muon_->after_adamw(rates.learning_rate);
  parameters_.optimizer_wrote(kernel && parameters_.ready());
  return norm;
}

Tensor AdamW::fused_step(double learning_rate, double bias1, double bias2) {
  return fused_adamw({.values = parameters_.values(),
                      .gradients = parameters_.gradients(),
                      .first_moment = first_moment_,
                      .second_moment = second_moment_,
                      .decayed = parameters_.decayed(),
                      .clip = options_.clip,
                      .decay = 1 - learning_rate * options_.weight_decay,
                      .beta1 = options_.beta1,
                      .beta2 = options_.beta2,
                      .step_size = learning_rate / bias1,
                      .second_scale = 1 / std::sqrt(bias2),
                      .epsilon = options_.epsilon});
}

Tensor AdamW::fused_step(const Rates& rates) {
  return device_adamw({.values = parameters_.values(),
                       .gradients = parameters_.gradients(),
                       .first_moment = first_moment_,
                       .second_moment = second_moment_,
                       .learning_rate = rates.learning_rate,
                       .bias1 = rates.bias1,
                       .bias2 = rates.bias2,
                       .decayed = parameters_.decayed(),
                       .clip = options_.clip,
                       .weight_decay = options_.weight_decay,
                       .beta1 = options_.beta1,
                       .beta2 = options_.beta2,
                       .epsilon = options_.epsilon,
                       .product_values = parameters_.product_values(),
                       .clear_gradients = parameters_.ready()});
}

// The composed definition; a number is a double or a tensor of one value.
template <class Number>
Tensor AdamW::composed_step(const Number& learning_rate, const Number& bias1, const Number& bias2) {
  using std::sqrt;
  auto &values = parameters_.values(), &gradients = parameters_.gradients();
  const auto norm = gradients.norm();
  if constexpr (std::is_same_v<Number, double>)
    if (is_known_not_finite(norm)) return norm;
  if (options_.clip > 0) gradients.mul_((options_.clip / (norm + 1e-6)).clamp_max(1.0));

  values.slice(0, 0, parameters_.decayed()).mul_(1 - learning_rate * options_.weight_decay);
  first_moment_.lerp_(gradients, 1 - options_.beta1);
  second_moment_.mul_(options_.beta2).addcmul_(gradients, gradients, 1 - options_.beta2);

  const auto scale = (second_moment_.sqrt() / sqrt(bias2)).add_(options_.epsilon);
  values.sub_(first_moment_ / scale * (learning_rate / bias1));
  return norm;
}

}  // namespace geores
