#include "geores/train/optimizer/adamw.h"

#include <cmath>

#include "geores/ops/run/execution.h"
#include "geores/ops/training/optimizer.h"

namespace geores {

AdamW::AdamW(FlatParameters& parameters, const AdamWOptions& options)
    : parameters_(parameters),
      options_(options),
      first_moment_(torch::zeros_like(parameters.values())),
      second_moment_(torch::zeros_like(parameters.values())) {}

Tensor AdamW::step(double learning_rate) {
  torch::NoGradGuard no_grad;
  ++steps_;
  auto &values = parameters_.values(), &gradients = parameters_.gradients();
  const auto t = static_cast<double>(steps_);
  const auto bias1 = 1 - std::pow(options_.beta1, t), bias2 = 1 - std::pow(options_.beta2, t);
  if (runs_cpu_kernel(values)) {
    auto norm = fused_adamw({.values = values,
                             .gradients = gradients,
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
    parameters_.optimizer_wrote(/*left_ready=*/false);
    return norm;
  }

  return composed_step(learning_rate, bias1, bias2);
}

Tensor AdamW::step(const Rates& rates) {
  torch::NoGradGuard no_grad;
  auto &values = parameters_.values(), &gradients = parameters_.gradients();
  if (!runs_cuda_kernel(values))
    return composed_step(rates.learning_rate, rates.bias1, rates.bias2);
  auto norm = device_adamw({.values = values,
                            .gradients = gradients,
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
  parameters_.optimizer_wrote(parameters_.ready());
  return norm;
}

// The definition; a number is a double or a tensor of one value.
template <class Number>
Tensor AdamW::composed_step(const Number& learning_rate, const Number& bias1, const Number& bias2) {
  using std::sqrt;
  auto &values = parameters_.values(), &gradients = parameters_.gradients();
  const auto norm = gradients.norm();
  if (options_.clip > 0) gradients.mul_((options_.clip / (norm + 1e-6)).clamp_max(1.0));

  values.slice(0, 0, parameters_.decayed()).mul_(1 - learning_rate * options_.weight_decay);
  first_moment_.lerp_(gradients, 1 - options_.beta1);
  second_moment_.mul_(options_.beta2).addcmul_(gradients, gradients, 1 - options_.beta2);

  const auto scale = (second_moment_.sqrt() / sqrt(bias2)).add_(options_.epsilon);
  values.sub_(first_moment_ / scale * (learning_rate / bias1));
  parameters_.optimizer_wrote(/*left_ready=*/false);
  return norm;
}

}  // namespace geores
