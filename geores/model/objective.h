// The objective of a pass over a batch: the task's loss, a mean over a number of terms, and the
// auxiliary losses of the model. Sum and count combine batches of different sizes, micro-batches
// and processes; they are computed on demand, because each would be a kernel in a recorded step.
#pragma once

#include <functional>

#include "geores/ops/torch.h"
#include "geores/residual/residual.h"

namespace geores {

using torch::Tensor;

class Objective {
 public:
  // mean: 0-dimensional; terms: their number, int64 and 0-dimensional; auxiliary: undefined if
  // there is none.
  Objective(Tensor mean, std::function<Tensor()> terms, Tensor auxiliary = {})
      : mean_(std::move(mean)), terms_(std::move(terms)), auxiliary_(std::move(auxiliary)) {}

  const Tensor& mean() const { return mean_; }
  Tensor terms() const { return terms_(); }
  Tensor sum() const { return mean_ * terms(); }
  const Tensor& auxiliary() const { return auxiliary_; }

  // The tensor that is differentiated.
  Tensor total() const { return auxiliary_.defined() ? mean_ + auxiliary_ : mean_; }

 private:
  Tensor mean_;
  std::function<Tensor()> terms_;
  Tensor auxiliary_;
};

// Mean squared error over all values; for int64 targets, cross entropy over the positions whose
// target is not −1. The auxiliary losses are the trace's.
Objective prediction_objective(const Tensor& prediction, const Tensor& target, const Trace& trace);

// The number of terms of a mean over these targets.
Tensor scored_terms(const Tensor& target);

// The mean of prediction_objective only.
Tensor task_loss(const Tensor& prediction, const Tensor& target);

// Weights (B) float64. Weights each sequence's squared error; for int64 targets it weights the mean
// of the batch with their sum. Float64, 0-dimensional.
Tensor weighted_task_loss(const Tensor& prediction, const Tensor& target, const Tensor& weights);

}  // namespace geores
