#include "geores/train/training_step.h"

#include "geores/base/error.h"
#include "geores/ops/run/execution.h"

namespace geores {

TrainingStep::TrainingStep(Model& model, const AdamWOptions& options, const Carry& carry)
    : model_(model),
      parameters_(model, model.manifold_parameters(), model.decay_exceptions()),
      optimizer_(parameters_, options),
      carry_(carry),
      one_(torch::ones({}, parameters_.values().options())) {}

Tensor TrainingStep::accumulate_gradients(const Tensor& x, const Tensor& y, int64_t parts) {
  require(parts >= 1 && x.size(0) % parts == 0, "train",
          "a batch of {} cannot be split into {} equal parts", x.size(0), parts);
  const SerialProducts serial;
  for (const auto& parameter : model_.manifold_parameters()) parameter.mutable_grad() = Tensor();

  Tensor total;
  const auto xs = x.chunk(parts), ys = y.chunk(parts);
  parameters_.collect_gradients(parts, [&](int64_t part) {
    const auto i = static_cast<size_t>(part);
    auto carry = carry_.part(part, parts);
    pass_.first_row = part * xs[i].size(0);
    model_.set_pass(pass_);
    const auto result = model_.objective({xs[i], ys[i]}, carry);
    const auto loss = result.mean(), objective = result.total();
    (parts == 1 ? objective : objective / parts).backward(one_);
    const auto share = parts == 1 ? loss.detach() : loss.detach() / parts;
    total = total.defined() ? total + share : share;
  });
  return total;
}

template <class Rate>
StepResult TrainingStep::take(const Tensor& x, const Tensor& y, const Rate& rate, int64_t parts) {
  const auto loss = accumulate_gradients(x, y, parts);
  const auto norm = optimizer_.step(rate);
  model_.manifold_step();
  return {.loss = loss, .gradient_norm = norm};
}

StepResult TrainingStep::run(const Tensor& x, const Tensor& y, double learning_rate,
                             int64_t parts) {
  return take(x, y, learning_rate, parts);
}

StepResult TrainingStep::run(const Tensor& x, const Tensor& y, const AdamW::Rates& rates,
                             int64_t parts) {
  return take(x, y, rates, parts);
}

}  // namespace geores
