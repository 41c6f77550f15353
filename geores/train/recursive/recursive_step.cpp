#include "geores/train/recursive/recursive_step.h"

#include "geores/base/error.h"
#include "geores/ops/run/execution.h"
#include "geores/train/optimizer/sign_sgd.h"

namespace geores {
namespace {

constexpr int64_t kRecursiveNumbers = 2;  // loss and gate loss

int64_t rows_of_carry(const Carry& carry) {
  return carry.empty() ? 0 : carry.all().front().second.size(0);
}

}  // namespace

RecursiveStep::RecursiveStep(Recursive& model, const RecursiveStepOptions& options,
                             const Carry& carry, const Communicator& communicator)
    : model_(model),
      communicator_(communicator),
      options_(options),
      parameters_(
          model, model.manifold_parameters(), {},
          GradientSum::spare_values(communicator, model.manifold_parameters(), kRecursiveNumbers,
                                    rows_of_carry(carry) * model.table().size(1))),
      sums_(communicator, parameters_, model.manifold_parameters(), kRecursiveNumbers,
            rows_of_carry(carry) * model.table().size(1)),
      optimizer_(parameters_, options.adam),
      carry_(carry) {
  model_.train_table();
  if (options.average > 0) average_ = parameters_.values().clone();
  if (communicator.is_group())
    identifiers_ = torch::zeros({rows_of_carry(carry)}, carry.at("identifiers").options());
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
  const auto shares = parts * communicator_.size();
  const bool splits = model_.options().gate_scale != "reference";
  require(parts == 1 || splits, "train",
          "gate_scale reference depends on the size of a batch: it has no micro-batches");
  require(shares == 1 || splits, "train",
          "gate_scale reference depends on the size of a batch: it trains in one process");
  const SerialProducts serial;
  for (const auto& parameter : model_.manifold_parameters()) parameter.mutable_grad() = Tensor();
  Result sum;
  const auto add = [&](Tensor& to, const Tensor& part) {
    const auto share = shares == 1 ? part.detach() : part.detach() / shares;
    to = to.defined() ? to + share : share;
  };
  const auto xs = x.chunk(parts), ys = y.chunk(parts);
  parameters_.collect_gradients(parts, [&](int64_t part) {
    const auto i = static_cast<size_t>(part);
    auto carry = carry_.part(communicator_.rank() * parts + part, shares);
    const auto result = model_.objective({xs[i], ys[i]}, carry);
    const auto total = result.total();
    (shares == 1 ? total : total / shares).backward();
    add(sum.loss, result.mean());
    if (result.auxiliary().defined()) add(sum.gate_loss, result.auxiliary());
  });
  return sum;
}

RecursiveStep::UsedRows RecursiveStep::take_used_rows() {
  std::vector<Tensor> identifiers, gradients;
  for (const auto& used : model_.take_table_rows()) {
    identifiers.push_back(used.identifiers);
    gradients.push_back(used.rows.grad());
  }
  return {.identifiers = torch::cat(identifiers), .gradients = torch::cat(gradients)};
}

Tensor RecursiveStep::table_gradients() {
  return sums_.more().view({identifiers_.size(0), model_.table().size(1)});
}

void RecursiveStep::step_table(const Tensor& identifiers, const Tensor& gradients,
                               const Tensor& table_rate) {
  sign_sgd_step(model_.table(), identifiers, gradients, table_rate, options_.table_decay);
}

// Requires all gradients.
void RecursiveStep::finish(const Rates& rates, Result& result) {
  result.gradient_norm = optimizer_.step(rates.adam);
  model_.manifold_step();
  const torch::NoGradGuard no_grad;
  if (average_.defined()) average_.lerp_(parameters_.values(), 1 - options_.average);
}

RecursiveStep::Result RecursiveStep::run(const Tensor& x, const Tensor& y, const Rates& rates,
                                         int64_t parts) {
  if (communicator_.is_group()) {
    leave_gradients(x, y, parts);
    sum_gradients();
    return update(rates);
  }
  auto result = accumulate_gradients(x, y, parts);
  const auto used = take_used_rows();
  finish(rates, result);
  step_table(used.identifiers, used.gradients, rates.table_rate);
  return result;
}

void RecursiveStep::leave_gradients(const Tensor& x, const Tensor& y, int64_t parts) {
  const auto result = accumulate_gradients(x, y, parts);
  const auto used = take_used_rows();
  const torch::NoGradGuard no_grad;
  has_gate_loss_ = result.gate_loss.defined();
  sums_.fill({result.loss, has_gate_loss_ ? result.gate_loss : torch::zeros_like(result.loss)});
  const auto begin = communicator_.rank() * x.size(0), end = begin + x.size(0);
  auto gradients = table_gradients();
  gradients.zero_();
  gradients.slice(0, begin, end).copy_(used.gradients);
  identifiers_.zero_();
  identifiers_.slice(0, begin, end).copy_(used.identifiers);
}

void RecursiveStep::sum_gradients() {
  sums_.sum();
  communicator_.sum(identifiers_);
}

RecursiveStep::Result RecursiveStep::update(const Rates& rates) {
  sums_.give_back();
  Result result{.loss = sums_.number(0).clone(),
                .gate_loss = has_gate_loss_ ? sums_.number(1).clone() : Tensor(),
                .gradient_norm = {}};
  finish(rates, result);
  step_table(identifiers_, table_gradients(), rates.table_rate);
  return result;
}

void RecursiveStep::gather_carry() {
  for (const auto& [name, tensor] : carry_.all()) gather_rows(communicator_, tensor);
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
