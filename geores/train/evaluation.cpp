#include "geores/train/evaluation.h"

#include <algorithm>
#include <map>

#include "geores/ops/training/sequences.h"

namespace geores {

std::vector<EvaluationBatch> evaluation_batches(const std::vector<std::vector<int64_t>>& drawn,
                                                bool weighs_sequences) {
  std::vector<EvaluationBatch> batches;
  if (drawn.empty()) return batches;
  const auto size = drawn.front().size();
  const double share = 1.0 / static_cast<double>(drawn.size() * size);
  if (!weighs_sequences) {
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

Batch rows_of(const Tensor& x, const Tensor& y, const std::vector<int64_t>& rows) {
  const auto indices = torch::tensor(rows, torch::kInt64).to(x.device());
  return {sequences_at(x, indices), sequences_at(y, indices)};
}

double loss_over_batches(Model& model, const Tensor& x, const Tensor& y,
                         const std::vector<std::vector<int64_t>>& drawn) {
  const torch::NoGradGuard no_grad;
  double total = 0;
  for (const auto& [rows, weights] : evaluation_batches(drawn, model.weighs_sequences())) {
    const auto shares = torch::tensor(weights, torch::kFloat64).to(x.device());
    total += model.weighted_loss(rows_of(x, y, rows), shares).item<double>();
  }
  return total;
}

double exact_loss(Model& model, const Tensor& x, const Tensor& y, int64_t batch) {
  const torch::NoGradGuard no_grad;
  double total = 0;
  int64_t counted = 0;
  for (int64_t begin = 0; begin < x.size(0); begin += batch) {
    const auto end = std::min(begin + batch, x.size(0));
    const auto loss = model.evaluate({x.slice(0, begin, end), y.slice(0, begin, end)});
    const auto terms = loss.terms().item<int64_t>();
    total += loss.mean().item<double>() * static_cast<double>(terms);
    counted += terms;
  }
  return total / static_cast<double>(counted);
}

}  // namespace geores
