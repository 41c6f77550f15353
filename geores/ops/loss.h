// The two losses of training, 0-dimensional.
#pragma once

#include <torch/torch.h>

namespace geores {

using torch::Tensor;

// mean (prediction − target)²; the target has no gradient.
Tensor mean_squared_error(const Tensor& prediction, const Tensor& target);

// −log softmax(logits)[target], mean over the positions whose target is not −1:
// logits (..., classes), targets (...) int64.
Tensor mean_cross_entropy(const Tensor& logits, const Tensor& targets);

}  // namespace geores
