// For tests: autograd against central differences.
// The loss is Σ cotangent · f() with a random cotangent (a plain sum hides errors: it is constant
// for every stochastic matrix), and each input is moved along random unit directions. Five-point
// differences in float64, so agreement to 1e-8 is to be expected.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "geores/ops/torch.h"

namespace geores {

struct GradientCheck {
  double error = 0;   // |difference quotient − ⟨gradient, direction⟩| / scale, the worst one
  std::string worst;  // the input it belongs to
};

// Sanitizers look at memory, which is the same in every direction.
#ifdef __SANITIZE_ADDRESS__
inline constexpr int kDirections = 1;
#else
inline constexpr int kDirections = 2;
#endif

// f must return a float64 tensor that depends on the inputs, all of them leaves that require grad.
inline GradientCheck check_gradients(
    const std::function<torch::Tensor()>& f,
    const std::vector<std::pair<std::string, torch::Tensor>>& inputs, int directions = kDirections,
    double step = 1e-4) {
  torch::Tensor cotangent;
  const auto loss = [&] {
    const auto out = f();
    if (!cotangent.defined()) cotangent = torch::randn_like(out);
    return (out * cotangent).sum();
  };
  std::vector<torch::Tensor> leaves;
  for (const auto& [name, tensor] : inputs) leaves.push_back(tensor);
  const auto gradients = torch::autograd::grad({loss()}, leaves, {}, c10::nullopt, false,
                                               /*allow_unused=*/true);
  GradientCheck result;
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto gradient = gradients[i].defined() ? gradients[i] : torch::zeros_like(leaves[i]);
    const auto original = leaves[i].clone();
    for (int k = 0; k < directions; ++k) {
      auto direction = torch::randn_like(original);
      direction /= direction.norm();
      const auto at = [&](double distance) {
        leaves[i].copy_(original + distance * direction);
        return loss().item<double>();
      };
      const auto quotient =
          (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
      leaves[i].copy_(original);
      const auto expected = (gradient * direction).sum().item<double>();
      // The mean projection of the gradient on a random unit direction.
      const auto typical =
          gradient.norm().item<double>() / std::sqrt(static_cast<double>(gradient.numel()));
      const auto scale = std::max({typical, std::abs(quotient), 1e-5});
      const auto error = std::abs(quotient - expected) / scale;
      if (!(error <= result.error)) result = {error, inputs[i].first};
    }
  }
  return result;
}

}  // namespace geores
