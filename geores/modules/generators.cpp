#include "geores/modules/generators.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/modules/layers.h"

namespace geores {

const std::vector<std::string>& generator_names() {
  static const std::vector<std::string> names = {"perceptron", "linear", "both"};
  return names;
}

Generators::Generators(const std::string& kind, int64_t in, int64_t hidden, const Tensor& bias) {
  const auto& names = generator_names();
  require(std::find(names.begin(), names.end(), kind) != names.end(), "generators",
          "must be perceptron, linear or both, got '{}'", kind);
  const auto out = bias.numel();
  if (kind != "linear") {
    hidden_ = register_module("hidden", make_linear(in, hidden, true));
    output_ = register_module("output", make_linear(hidden, out, true));
  }
  if (kind != "perceptron")
    linear_ = register_module("linear", make_linear(in, out, !output_, kInitialStd * kInitialStd));
  const torch::NoGradGuard no_grad;
  (output_ ? output_ : linear_)->bias.copy_(bias);
}

Tensor Generators::forward(const Tensor& x) {
  if (!output_) return linear_map(x, linear_->weight, linear_->bias);
  const auto curved = linear_map(exact_gelu(linear_map(x, hidden_->weight, hidden_->bias)),
                                 output_->weight, output_->bias);
  return linear_ ? curved + linear_map(x, linear_->weight) : curved;
}

}  // namespace geores
