#include "geores/model/recursive/puzzle_loss.h"

namespace geores {

Tensor stablemax_losses(const Tensor& logits, const Tensor& labels) {
  const auto x = logits.to(torch::kFloat64);
  // Both branches stay finite: the gradient of the unused one would otherwise be NaN.
  const auto s = torch::where(x >= 0, x.clamp_min(0) + 1, 1 / (1 - x.clamp_max(0)));
  const auto of_label = s.gather(-1, labels.clamp_min(0).unsqueeze(-1)).squeeze(-1);
  return (s.sum(-1).log() - of_label.log()) * (labels >= 0).to(torch::kFloat64);
}

RowScores score_rows(const Tensor& logits, const Tensor& q_halt, const Tensor& labels) {
  const auto scored = labels >= 0;
  const auto count = scored.sum(-1).to(torch::kFloat64), divisor = count.clamp_min(1);
  RowScores scores;
  scores.lm_loss = stablemax_losses(logits, labels).sum(-1) / divisor;

  const auto right = (logits.detach().argmax(-1) == labels).logical_and(scored).sum(-1);
  scores.right_cells = right.to(torch::kFloat64) / divisor;
  const auto exact = right == scored.sum(-1);
  scores.exact = exact.to(torch::kFloat64);
  scores.q_loss = torch::binary_cross_entropy_with_logits(q_halt.to(torch::kFloat64), scores.exact,
                                                          {}, {}, at::Reduction::None);
  scores.q_right = ((q_halt.detach() >= 0) == exact).to(torch::kFloat64);
  scores.scored = (count > 0).to(torch::kFloat64);
  return scores;
}

}  // namespace geores
