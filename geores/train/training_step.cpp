#include "geores/train/training_step.h"

#include <type_traits>

#include "geores/base/error.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/training/scalar.h"
#include "geores/train/optimizer/sign_sgd.h"

namespace geores {
namespace {

constexpr int64_t kSummedNumbers = 1;  // the loss

double parameter_rate(const LearningRates& rates) { return rates.parameters; }
const Optimizer::Rates& parameter_rate(const Optimizer::Rates& rates) { return rates; }

Tensor table_rate(const LearningRates& rates, const Tensor& table) {
  return torch::full({1}, rates.table, torch::kFloat64).to(table.options());
}
Tensor table_rate(const Optimizer::Rates& rates, const Tensor&) { return rates.table_rate; }

}  // namespace

TrainingStep::TrainingStep(Model& model, const OptimizerOptions& options, const Carry& carry,
                           const Communicator& communicator)
    : model_(model),
      communicator_(communicator),
      carry_(carry),
      table_(options.table_decay ? model.train_table() : Tensor()),
      parameters_(model, model.manifold_parameters(), model.decay_exceptions(),
                  GradientSum::spare_values(communicator, model.manifold_parameters(),
                                            kSummedNumbers, table_values())),
      sums_(communicator, parameters_, model.manifold_parameters(), kSummedNumbers, table_values()),
      optimizer_(make_optimizer(parameters_, options)),
      one_(torch::ones({}, parameters_.values().options())) {
  if (options.average > 0) average_ = parameters_.values().clone();
  if (table_.defined() && communicator.is_group())
    identifiers_ =
        torch::zeros({carry.all().front().second.size(0)}, table_.options().dtype(torch::kInt64));
}

int64_t TrainingStep::table_values() const {
  return table_.defined() && !carry_.empty() ? carry_.all().front().second.size(0) * table_.size(1)
                                             : 0;
}

// Computes the gradients of this process's share of the whole batch's loss; returns its share of
// the loss.
StepResult TrainingStep::accumulate_gradients(const Tensor& x, const Tensor& y, int64_t parts,
                                              const Tensor& whole_terms) {
  require(parts >= 1 && x.size(0) % parts == 0, "train",
          "a batch of {} cannot be split into {} equal parts", x.size(0), parts);
  model_.require_parts(parts, communicator_.size());
  const SerialProducts serial;
  for (const auto& parameter : model_.manifold_parameters()) parameter.mutable_grad() = Tensor();

  const auto shares = parts * communicator_.size();
  const auto share_of = [&](const Tensor& mean) { return shares == 1 ? mean : mean / shares; };
  const auto add = [](Tensor& to, const Tensor& part) { to = to.defined() ? to + part : part; };
  StepResult sum;
  const auto xs = x.chunk(parts), ys = y.chunk(parts);
  parameters_.collect_gradients(parts, [&](int64_t part) {
    const auto i = static_cast<size_t>(part);
    const auto shard = communicator_.rank() * parts + part;
    auto carry = carry_.part(shard, shares);
    pass_.first_row = shard * xs[i].size(0);
    model_.set_pass(pass_);
    const auto result = model_.objective({xs[i], ys[i]}, carry);
    Tensor loss, objective;
    if (whole_terms.defined()) {
      const auto weight = (result.terms().to(whole_terms.device()) / whole_terms.squeeze())
                              .to(result.mean().scalar_type());
      loss = result.mean() * weight;
      objective = result.auxiliary().defined() ? loss + share_of(result.auxiliary()) : loss;
    } else {
      objective = share_of(result.total());
      loss = share_of(result.mean().detach());
    }
    objective.backward(one_);
    add(sum.loss, loss.detach());
    if (result.auxiliary().defined()) add(sum.auxiliary, share_of(result.auxiliary().detach()));
  });
  return sum;
}

TrainingStep::UsedRows TrainingStep::take_used_rows() {
  if (!table_.defined()) return {};
  std::vector<Tensor> identifiers, gradients;
  for (const auto& used : model_.take_table_rows()) {
    identifiers.push_back(used.identifiers);
    gradients.push_back(used.rows.grad());
  }
  return {.identifiers = torch::cat(identifiers), .gradients = torch::cat(gradients)};
}

Tensor TrainingStep::summed_table_gradients() {
  return sums_.more().view({identifiers_.size(0), table_.size(1)});
}

// With rates on the device the work is the same whatever the numbers are: it can be recorded.
template <class Rate>
StepResult TrainingStep::update_after(StepResult done, const Rate& rate, const UsedRows& used) {
  constexpr bool host_decides = std::is_same_v<Rate, LearningRates>;
  if (host_decides && is_known_not_finite(done.loss)) {
    done.gradient_norm = parameters_.gradients().norm();
    return done;
  }
  done.gradient_norm = optimizer_->step(parameter_rate(rate));
  if (host_decides && is_known_not_finite(done.gradient_norm)) return done;
  model_.manifold_step();
  const torch::NoGradGuard no_grad;
  if (average_.defined()) average_.lerp_(parameters_.values(), 1 - optimizer_->options().average);
  if (table_.defined())
    sign_sgd_step(table_, used.identifiers, used.gradients, table_rate(rate, table_),
                  *optimizer_->options().table_decay);
  return done;
}

template <class Rate>
StepResult TrainingStep::update_by_sums(const Rate& rate) {
  sums_.give_back();
  UsedRows used;
  if (table_.defined()) used = {.identifiers = identifiers_, .gradients = summed_table_gradients()};
  return update_after({.loss = sums_.number(0).clone(), .gradient_norm = {}}, rate, used);
}

template <class Rate>
StepResult TrainingStep::take(const Tensor& x, const Tensor& y, const Rate& rate, int64_t parts,
                              const Tensor& whole_terms) {
  if (communicator_.is_group()) {
    leave_gradients(x, y, parts, whole_terms);
    sum_gradients();
    return update_by_sums(rate);
  }
  auto done = accumulate_gradients(x, y, parts, whole_terms);
  return update_after(std::move(done), rate, take_used_rows());
}

void TrainingStep::leave_gradients(const Tensor& x, const Tensor& y, int64_t parts,
                                   const Tensor& whole_terms) {
  const auto done = accumulate_gradients(x, y, parts, whole_terms);
  sums_.fill({done.loss});
  if (!table_.defined()) return;
  const auto used = take_used_rows();
  const torch::NoGradGuard no_grad;
  const auto begin = communicator_.rank() * x.size(0), end = begin + x.size(0);
  const auto gradients = summed_table_gradients();
  gradients.zero_();
  gradients.slice(0, begin, end).copy_(used.gradients);
  identifiers_.zero_();
  identifiers_.slice(0, begin, end).copy_(used.identifiers);
}

void TrainingStep::sum_gradients() {
  sums_.sum();
  if (table_.defined()) communicator_.sum(identifiers_);
}

StepResult TrainingStep::update(const Rates& rates) { return update_by_sums(rates); }

StepResult TrainingStep::run(const Tensor& x, const Tensor& y, const LearningRates& rates,
                             int64_t parts, const Tensor& whole_terms) {
  return take(x, y, rates, parts, whole_terms);
}

StepResult TrainingStep::run(const Tensor& x, const Tensor& y, const Rates& rates, int64_t parts,
                             const Tensor& whole_terms) {
  return take(x, y, rates, parts, whole_terms);
}

void TrainingStep::gather_carry() {
  for (const auto& [name, tensor] : carry_.all()) gather_rows(communicator_, tensor);
}

AveragedParameters::AveragedParameters(TrainingStep& step) : step_(step) {
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
