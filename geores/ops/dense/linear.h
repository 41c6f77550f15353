// Linear maps and the two-layer perceptron, over the last axis of x (..., in). The names leave
// at::linear and at::gelu alone, which an unqualified call would find as well.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// x Wᵀ (+ bias): weight (out, in).
Tensor linear_map(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// The same with a result of this type: what follows a product in bfloat16 may want all its digits.
Tensor linear_map_to(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     torch::ScalarType type);

// x Wᵀ + rows + bias: x (B, T, in), rows (T, out) the same for each sequence, bias (out). In the
// type of the rows.
Tensor linear_map_and_rows(const Tensor& x, const Tensor& weight, const Tensor& rows,
                           const Tensor& bias);

// GELU(x W₁ᵀ) W₂ᵀ: up (hidden, in), down (out, hidden). Fused, it keeps the hidden layer once.
Tensor perceptron(const Tensor& x, const Tensor& up, const Tensor& down);

// Linear(in, hidden) → GELU(erf) → Linear(hidden, out) with biases, as its weights.
struct PerceptronWeights {
  Tensor hidden, hidden_bias, output, output_bias;
};

// GELU(erf).
Tensor exact_gelu(const Tensor& x);

}  // namespace geores
