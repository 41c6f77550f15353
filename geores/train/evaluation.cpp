#include "geores/train/evaluation.h"

#include <map>

#include "geores/ops/training/loss.h"

namespace geores {

std::vector<EvaluationBatch> evaluation_batches(const std::vector<std::vector<int64_t>>& drawn,
                                                const Tensor& targets) {
  std::vector<EvaluationBatch> batches;
  if (drawn.empty()) return batches;
  const auto size = drawn.front().size();
  const double share = 1.0 / static_cast<double>(drawn.size() * size);
  if (are_classes(targets)) {
    for (const auto& rows : drawn)
      batches.push_back({.rows = rows, .weights = std::vector<double>(size, share)});
    return batches;
  }
  std::map<int64_t, double> weights;
  for (const auto& rows : drawn)
    for (const auto row : rows) weights[row] += share;
  for (const auto& [row, weight] : weights) {
    if (batches.empty() || batches.back().rows.size() == size) batches.emplace_back();
    batches.back().rows.push_back(row);
    batches.back().weights.push_back(weight);
  }
  return batches;
}

Tensor weighted_loss(const Tensor& prediction, const Tensor& target, const Tensor& weights) {
  if (are_classes(target))
    return mean_cross_entropy(prediction, target).to(torch::kFloat64) * weights.sum();
  const auto errors = (prediction - target).square().flatten(1).mean(1);
  return errors.to(torch::kFloat64).dot(weights);
}

}  // namespace geores
