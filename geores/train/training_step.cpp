#include "geores/train/training_step.h"

#include <type_traits>

#include "geores/base/error.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/training/scalar.h"

namespace geores {
namespace {

constexpr int64_t kSummedNumbers = 1;  // the loss

}  // namespace

TrainingStep::TrainingStep(Model& model, const AdamWOptions& options, const Carry& carry,
                           const Communicator& communicator)
    : model_(model),
      communicator_(communicator),
      parameters_(
          model, model.manifold_parameters(), model.decay_exceptions(),
          GradientSum::spare_values(communicator, model.manifold_parameters(), kSummedNumbers)),
      sums_(communicator, parameters_, model.manifold_parameters(), kSummedNumbers),
      optimizer_(parameters_, options),
      carry_(carry),
      one_(torch::ones({}, parameters_.values().options())) {}

// Computes the gradients of this process's share of the whole batch's loss; returns its share of
// the loss.
Tensor TrainingStep::accumulate_gradients(const Tensor& x, const Tensor& y, int64_t parts,
                                          const Tensor& whole_terms) {
  require(parts >= 1 && x.size(0) % parts == 0, "train",
          "a batch of {} cannot be split into {} equal parts", x.size(0), parts);
  const SerialProducts serial;
  for (const auto& parameter : model_.manifold_parameters()) parameter.mutable_grad() = Tensor();

  const auto shares = parts * communicator_.size();
  const auto share_of = [&](const Tensor& mean) { return shares == 1 ? mean : mean / shares; };
  Tensor total;
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
    total = total.defined() ? total + loss.detach() : loss.detach();
  });
  return total;
}

// With rates on the device the work is the same whatever the numbers are: it can be recorded.
template <class Rate>
StepResult TrainingStep::update_after(const Tensor& loss, const Rate& rate) {
  constexpr bool host_decides = std::is_same_v<Rate, double>;
  if (host_decides && is_known_not_finite(loss))
    return {.loss = loss, .gradient_norm = parameters_.gradients().norm()};
  const auto norm = optimizer_.step(rate);
  if (!host_decides || !is_known_not_finite(norm)) model_.manifold_step();
  return {.loss = loss, .gradient_norm = norm};
}

template <class Rate>
StepResult TrainingStep::update_by_sums(const Rate& rate) {
  sums_.give_back();
  return update_after(sums_.number(0).clone(), rate);
}

template <class Rate>
StepResult TrainingStep::take(const Tensor& x, const Tensor& y, const Rate& rate, int64_t parts,
                              const Tensor& whole_terms) {
  if (communicator_.is_group()) {
    leave_gradients(x, y, parts, whole_terms);
    sum_gradients();
    return update_by_sums(rate);
  }
  return update_after(accumulate_gradients(x, y, parts, whole_terms), rate);
}

void TrainingStep::leave_gradients(const Tensor& x, const Tensor& y, int64_t parts,
                                   const Tensor& whole_terms) {
  sums_.fill({accumulate_gradients(x, y, parts, whole_terms)});
}

StepResult TrainingStep::update(const AdamW::Rates& rates) { return update_by_sums(rates); }

StepResult TrainingStep::run(const Tensor& x, const Tensor& y, double learning_rate, int64_t parts,
                             const Tensor& whole_terms) {
  return take(x, y, learning_rate, parts, whole_terms);
}

StepResult TrainingStep::run(const Tensor& x, const Tensor& y, const AdamW::Rates& rates,
                             int64_t parts, const Tensor& whole_terms) {
  return take(x, y, rates, parts, whole_terms);
}

void TrainingStep::gather_carry() {
  for (const auto& [name, tensor] : carry_.all()) gather_rows(communicator_, tensor);
}

}  // namespace geores
