#include "geores/train/training_step.h"

#include "geores/base/error.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/training/loss.h"

namespace geores {
namespace {

std::vector<Tensor> manifold_parameters(const Transformer& model) {
  std::vector<Tensor> all;
  for (const auto* residual : model.residuals())
    for (const auto& parameter : residual->manifold_parameters()) all.push_back(parameter);
  return all;
}

}  // namespace

Tensor task_loss(const Tensor& prediction, const Tensor& target) {
  return are_classes(target) ? mean_cross_entropy(prediction, target)
                             : mean_squared_error(prediction, target);
}

TrainingStep::TrainingStep(Transformer& model, const AdamWOptions& options)
    : model_(model),
      parameters_(model, manifold_parameters(model)),
      optimizer_(parameters_, options),
      one_(torch::ones({}, parameters_.values().options())) {}

Tensor TrainingStep::accumulate_gradients(const Tensor& x, const Tensor& y, int64_t parts) {
  require(parts >= 1 && x.size(0) % parts == 0, "train",
          "a batch of {} cannot be split into {} equal parts", x.size(0), parts);
  const SerialProducts serial;
  for (const auto& parameter : manifold_parameters(model_)) parameter.mutable_grad() = Tensor();

  Tensor total;
  const auto xs = x.chunk(parts), ys = y.chunk(parts);
  parameters_.collect_gradients(parts, [&](int64_t part) {
    const auto i = static_cast<size_t>(part);
    Trace trace;
    const auto loss = are_classes(ys[i]) ? mean_cross_entropy(model_.forward(xs[i], trace), ys[i])
                                         : model_.squared_error(xs[i], ys[i], trace);
    const auto auxiliary = trace.loss();
    const auto objective = auxiliary.defined() ? loss + auxiliary : loss;
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
  for (auto* residual : model_.residuals()) residual->manifold_step();
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
