#include "geores/train/recursive/recursive_step.h"

#include "geores/base/error.h"
#include "geores/ops/run/execution.h"
#include "geores/train/optimizer/sign_sgd.h"

namespace geores {

RecursiveStep::RecursiveStep(Recursive& model, const RecursiveStepOptions& options,
                             const Carry& carry)
    : model_(model),
      options_(options),
      parameters_(model, model.manifold_parameters()),
      optimizer_(parameters_, options.adam),
      carry_(carry) {
  model_.train_table();
  if (options.average > 0) average_ = parameters_.values().clone();
}

RecursiveStep::Rates RecursiveStep::rates(double learning_rate, double table_rate,
                                          int64_t t) const {
  auto adam = optimizer_.rates(learning_rate, t);
  const auto table = torch::full({1}, table_rate, adam.learning_rate.options());
  return {.adam = std::move(adam), .table_rate = table};
}

RecursiveStep::Result RecursiveStep::accumulate_gradients(const Tensor& x, const Tensor& y,
                                                          int64_t parts) {
  require(parts >= 1 && x.size(0) % parts == 0, "train",
          "a batch of {} cannot be split into {} equal parts", x.size(0), parts);
  require(parts == 1 || model_.options().gate_scale != "reference", "train",
          "gate_scale reference depends on the size of a batch: it has no micro-batches");
  const SerialProducts serial;
  for (const auto& parameter : model_.manifold_parameters()) parameter.mutable_grad() = Tensor();
  Result sum;
  const auto add = [&](Tensor& to, const Tensor& part) {
    const auto share = parts == 1 ? part.detach() : part.detach() / parts;
    to = to.defined() ? to + share : share;
  };
  const auto xs = x.chunk(parts), ys = y.chunk(parts);
  parameters_.collect_gradients(parts, [&](int64_t part) {
    const auto i = static_cast<size_t>(part);
    auto carry = carry_.part(part, parts);
    const auto result = model_.objective({xs[i], ys[i]}, carry);
    const auto total = result.total();
    (parts == 1 ? total : total / parts).backward();
    add(sum.loss, result.mean());
    if (result.auxiliary().defined()) add(sum.gate_loss, result.auxiliary());
  });
  return sum;
}

void RecursiveStep::step_table(const Tensor& table_rate) {
  std::vector<Tensor> identifiers, gradients;
  for (const auto& used : model_.take_table_rows()) {
    identifiers.push_back(used.identifiers);
    gradients.push_back(used.rows.grad());
  }
  sign_sgd_step(model_.table(), torch::cat(identifiers), torch::cat(gradients), table_rate,
                options_.table_decay);
}

RecursiveStep::Result RecursiveStep::run(const Tensor& x, const Tensor& y, const Rates& rates,
                                         int64_t parts) {
  auto result = accumulate_gradients(x, y, parts);
  result.gradient_norm = optimizer_.step(rates.adam);
  model_.manifold_step();
  step_table(rates.table_rate);
  const torch::NoGradGuard no_grad;
  if (average_.defined()) average_.lerp_(parameters_.values(), 1 - options_.average);
  return result;
}

AveragedParameters::AveragedParameters(RecursiveStep& step) : step_(step) {
  if (!step.average().defined()) return;
  const torch::NoGradGuard no_grad;
  kept_ = step.parameters().values().clone();
  step.parameters().values().copy_(step.average());
}

AveragedParameters::~AveragedParameters() {
  if (!kept_.defined()) return;
  const torch::NoGradGuard no_grad;
  step_.parameters().values().copy_(kept_);
}

}  // namespace geores
