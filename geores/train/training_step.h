// One optimiser step of one model: forward, task loss + auxiliary loss, backward, clip, AdamW, and
// the Riemannian steps of parameters that live on a manifold. `geores train` and `geores verify`
// both use it.
//
// Several processes share a step: each has its rows of the batch, gradients and loss are summed
// after the backward passes, and every process takes the same step. Each process has the carry of
// the whole batch and updates its own rows.
#pragma once

#include "geores/model/model.h"
#include "geores/ops/run/execution.h"
#include "geores/train/communication/gradient_sum.h"
#include "geores/train/optimizer/adamw.h"

namespace geores {

struct StepResult {
  Tensor loss;           // of the task, without the auxiliary one; 0-dimensional, detached
  Tensor gradient_norm;  // before clipping
};

class TrainingStep {
 public:
  // The model must have its final dtype and device: its parameters move into flat buffers here.
  // `carry`: the carry of the first step (Model::initial_carry).
  TrainingStep(Model& model, const AdamWOptions& options, const Carry& carry = {},
               const Communicator& communicator = one_process());

  // The inputs of the model's random draws of the next steps (Model::set_pass). `step` is (1) int64
  // on the model's device.
  void set_pass(int64_t seed, const Tensor& step) { pass_ = {.seed = seed, .step = step}; }

  // x and y, this process's rows, are split into `parts` equal pieces whose gradients are summed.
  // whole_terms: terms of the loss over the whole batch, all processes together, one value; undefined
  // where every piece has as many. On a CPU, with a learning rate that the host knows, a step whose loss or
  // gradient is not finite changes no weight, moment or count.
  StepResult run(const Tensor& x, const Tensor& y, double learning_rate, int64_t parts = 1,
                 const Tensor& whole_terms = {});
  StepResult run(const Tensor& x, const Tensor& y, const AdamW::Rates& rates, int64_t parts = 1,
                 const Tensor& whole_terms = {});

  // The same in three calls, for a group whose steps are recorded: a collective runs between two
  // recordings.
  void leave_gradients(const Tensor& x, const Tensor& y, int64_t parts, const Tensor& whole_terms);
  void sum_gradients() { sums_.sum(); }
  StepResult update(const AdamW::Rates& rates);

  const Communicator& communicator() const { return communicator_; }
  GradientSum& sums() { return sums_; }

  // Afterwards this process's carry has the rows of all processes.
  void gather_carry();

  FlatParameters& parameters() { return parameters_; }
  AdamW& optimizer() { return optimizer_; }
  const Carry& carry() const { return carry_; }
  Carry& carry() { return carry_; }

 private:
  Tensor accumulate_gradients(const Tensor& x, const Tensor& y, int64_t parts,
                              const Tensor& whole_terms);
  template <class Rate>
  StepResult take(const Tensor& x, const Tensor& y, const Rate& rate, int64_t parts,
                  const Tensor& whole_terms);
  template <class Rate>
  StepResult update_after(const Tensor& loss, const Rate& rate);
  template <class Rate>
  StepResult update_by_sums(const Rate& rate);

  Model& model_;
  const Communicator& communicator_;
  FlatParameters parameters_;
  GradientSum sums_;
  AdamW optimizer_;
  Carry carry_;
  PassPosition pass_;
  Tensor one_;  // the gradient of the objective by itself: kept, because creating it takes a kernel
};

}  // namespace geores
