// SignSGD for the rows of a table that a batch used:
//   w ← w(1 − lr·decay) − lr·sign(Σ g)     for each identifier in the batch, once
// where the sum is over the rows of the batch with that identifier; sign(0) = 0.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// table (N, w) is updated in place; identifiers (B) int64; gradients (B, w); learning_rate: one
// value, on the device. No shape depends on the number of distinct identifiers, so a step can be
// recorded.
void sign_sgd_step(Tensor& table, const Tensor& identifiers, const Tensor& gradients,
                   const Tensor& learning_rate, double weight_decay);

}  // namespace geores
