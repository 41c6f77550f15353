// The head of a language model fused with its loss: mean −log softmax(x Wᵀ)[target] over the
// positions whose target is not −1, in pieces of `chunk` positions, so that only the logits of one
// piece exist at a time. The gradients of x and W are computed in the forward pass, while a piece's
// logits exist, and scaled in the backward pass by the incoming gradient; there is no second
// derivative. With products in bfloat16 on a GPU the logits are bfloat16 too, as is usual in that
// precision; sums are float32. Without gradients, in evaluations, logits are not rounded.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// x (N, C), weight (V, C), targets (N) int64 in −1..V − 1; 0-dimensional.
Tensor chunked_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                             int64_t chunk);

}  // namespace geores
