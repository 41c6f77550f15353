// The training losses, 0-dimensional.
#pragma once

#include "geores/ops/dense/normalized_linear.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// Whether targets are class indices, for mean_cross_entropy, rather than values.
inline bool are_classes(const Tensor& targets) { return targets.scalar_type() == torch::kInt64; }

// mean (prediction − target)²; the target has no gradient.
Tensor mean_squared_error(const Tensor& prediction, const Tensor& target);

// mean (Norm(x) Wᵀ + bias − target)²: on a GPU with products in bfloat16 the bias is added where
// the error is computed, and the error's gradient is produced in the type of the product.
Tensor normalized_linear_error(const State& state, const NormSpec& norm, const Tensor& weight,
                               const Tensor& bias, const Tensor& target);

// −log softmax(logits)[target], mean over the positions whose target is not −1:
// logits (..., classes), targets (...) int64.
Tensor mean_cross_entropy(const Tensor& logits, const Tensor& targets);

}  // namespace geores
