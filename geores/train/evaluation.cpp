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
                         const std::vector<std::vector<int64_t>>& drawn,
                         const Communicator& communicator) {
  const torch::NoGradGuard no_grad;
  const auto batches = evaluation_batches(drawn, model.weighs_sequences());
  std::vector<double> losses(batches.size(), 0.0);
  for (auto i = static_cast<size_t>(communicator.rank()); i < batches.size();
       i += static_cast<size_t>(communicator.size())) {
    const auto shares = torch::tensor(batches[i].weights, torch::kFloat64).to(x.device());
    losses[i] = model.weighted_loss(rows_of(x, y, batches[i].rows), shares).item<double>();
  }
  double total = 0;
  for (const auto loss : gather_numbers(communicator, losses)) total += loss;
  return total;
}

LossSum sum_over_batches(int64_t count, const Communicator& communicator,
                         const std::function<Objective(int64_t)>& loss) {
  const torch::NoGradGuard no_grad;
  std::vector<double> numbers(2 * static_cast<size_t>(count), 0.0);  // mean and terms of each
  for (auto i = communicator.rank(); i < count; i += communicator.size()) {
    const auto found = loss(i);
    numbers[2 * static_cast<size_t>(i)] = found.mean().item<double>();
    numbers[2 * static_cast<size_t>(i) + 1] = static_cast<double>(found.terms().item<int64_t>());
  }
  numbers = gather_numbers(communicator, numbers);
  LossSum total;
  for (size_t i = 0; i < numbers.size(); i += 2) {
    total.sum += numbers[i] * numbers[i + 1];
    total.terms += static_cast<int64_t>(numbers[i + 1]);
  }
  return total;
}

double exact_loss(Model& model, const Tensor& x, const Tensor& y, int64_t batch,
                  const Communicator& communicator) {
  const auto all = x.size(0);
  return sum_over_batches((all + batch - 1) / batch, communicator,
                          [&](int64_t i) {
                            const auto begin = i * batch, end = std::min(begin + batch, all);
                            return model.evaluate({x.slice(0, begin, end), y.slice(0, begin, end)});
                          })
      .mean();
}

std::vector<double> errors_by_position(Model& model, const Tensor& x, const Tensor& y,
                                       int64_t batch) {
  const torch::NoGradGuard no_grad;
  auto sums = torch::zeros({y.size(1)}, torch::kFloat64);
  for (int64_t begin = 0; begin < x.size(0); begin += batch) {
    Trace trace;
    const auto predicted = model.predict(x.slice(0, begin, begin + batch), trace);
    const auto target = y.slice(0, begin, begin + batch);
    sums += (predicted - target)
                .to(torch::kCPU, torch::kFloat64)
                .square()
                .sum(torch::IntArrayRef{0, 2});
  }
  sums /= static_cast<double>(y.size(0) * y.size(2));
  return {sums.data_ptr<double>(), sums.data_ptr<double>() + sums.numel()};
}

}  // namespace geores
