// Reads the generators of an operator off a summary x of the state.
//   perceptron   W₂ GELU(W₁x + b₁) + b
//   linear       W x + b
//   both         their sum, with one bias b
// A perceptron has to learn a direction that is parallel to x, or turned by a fixed angle from it,
// unit by unit from samples; a linear map has it exactly.
// Start: W₁ and W₂ from N(0, 0.02), W from N(0, 0.02²): all three kinds begin close to the bias.
#pragma once

#include <string>
#include <vector>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

const std::vector<std::string>& generator_names();  // perceptron, linear, both

class Generators : public torch::nn::Module {
 public:
  // `hidden` units where there is a perceptron; b starts as `bias`.
  Generators(const std::string& kind, int64_t in, int64_t hidden, const Tensor& bias);
  Tensor forward(const Tensor& x);  // (..., in) -> (..., bias.numel())

 private:
  torch::nn::Linear hidden_{nullptr}, output_{nullptr}, linear_{nullptr};
};

}  // namespace geores
