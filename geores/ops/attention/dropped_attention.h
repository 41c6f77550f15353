// The core of attention in training with dropout on the attention weights.
#pragma once

#include "geores/ops/attention/rotary.h"
#include "geores/ops/torch.h"
#include "geores/ops/training/dropout.h"

namespace geores {

using torch::Tensor;

// dropped(softmax(scale · scores)), scores (B, h, T, T); causal: position t sees 0..t. The mask
// depends on an element's index in (B, h, T, T), so it is the same in both forms. The composed form
// makes several passes over all pairs of positions; a GPU uses one kernel each way.
Tensor dropped_softmax(const Tensor& scores, double scale, bool causal, const Dropout& dropout,
                       int64_t site);

// dropped(softmax(q kᵀ/√d + mask)) v, (B, T, h·d). On a GPU both products are in the precision of products;
// on a CPU in the type of the heads.
Tensor dropped_attention(const Heads& heads, bool causal, const Dropout& dropout, int64_t site);

}  // namespace geores
