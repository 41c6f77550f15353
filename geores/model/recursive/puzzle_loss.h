// The loss of a recursive model and its metrics, row by row.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// −log p of each label, p = s(x)/Σ s(x) over the last axis with s(x) = x + 1 for x ≥ 0 and
// 1/(1 − x) for x < 0 ("stablemax"). logits (..., V), labels (...) int64; a negative label gives 0.
// In float64.
Tensor stablemax_losses(const Tensor& logits, const Tensor& labels);

// For each row, all (B) float64.
struct RowScores {
  Tensor lm_loss;      // mean of stablemax losses over the scored positions; 0 if there are none
  Tensor q_loss;       // binary cross entropy of σ(q_halt) against `exact`
  Tensor right_cells;  // share of scored positions whose largest logit is the label
  Tensor exact;        // 1 if all of them are right (or there are none)
  Tensor q_right;      // 1 if (q_halt ≥ 0) = exact
  Tensor scored;       // 1 if there is a scored position
};

// logits (B, T, V), q_halt (B), labels (B, T) int64, negative: not scored. Only the losses have
// gradients.
RowScores score_rows(const Tensor& logits, const Tensor& q_halt, const Tensor& labels);

}  // namespace geores
