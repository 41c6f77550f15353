#include "geores/model/objective.h"

#include "geores/ops/training/loss.h"

namespace geores {

Tensor task_loss(const Tensor& prediction, const Tensor& target) {
  return are_classes(target) ? mean_cross_entropy(prediction, target)
                             : mean_squared_error(prediction, target);
}

Tensor scored_terms(const Tensor& target) {
  return are_classes(target) ? (target >= 0).sum() : torch::tensor(target.numel(), torch::kInt64);
}

Objective prediction_objective(const Tensor& prediction, const Tensor& target, const Trace& trace) {
  return {task_loss(prediction, target), [target] { return scored_terms(target); }, trace.loss()};
}

Tensor weighted_task_loss(const Tensor& prediction, const Tensor& target, const Tensor& weights) {
  if (are_classes(target)) return task_loss(prediction, target).to(torch::kFloat64) * weights.sum();
  const auto errors = (prediction - target).square().flatten(1).mean(1);
  return errors.to(torch::kFloat64).dot(weights);
}

}  // namespace geores
