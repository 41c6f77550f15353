// Linear maps and the two-layer perceptron, over the last axis of x (..., in). The names differ
// from at::linear and at::gelu, which argument-dependent lookup would find too.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// x Wᵀ (+ bias): weight (out, in).
Tensor linear_map(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// The same with a result of this type: code that follows a product in bfloat16 may need float32.
Tensor linear_map_to(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     torch::ScalarType type);

// x Wᵀ + rows + bias: x (B, T, in), rows (T, out) the same for each sequence, bias (out). The
// result has the type of the rows.
Tensor linear_map_and_rows(const Tensor& x, const Tensor& weight, const Tensor& rows,
                           const Tensor& bias);

// GELU(x W₁ᵀ) W₂ᵀ: up (hidden, in), down (out, hidden). The fused form stores the hidden layer
// once.
Tensor perceptron(const Tensor& x, const Tensor& up, const Tensor& down);

// The weights of Linear(in, hidden) → GELU(erf) → Linear(hidden, out) with biases.
struct PerceptronWeights {
  Tensor hidden, hidden_bias, output, output_bias;
};

// GELU(erf).
Tensor exact_gelu(const Tensor& x);

}  // namespace geores
