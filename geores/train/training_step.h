// One optimiser step of one model: forward, task loss + auxiliary loss, backward, clip, optimiser,
// the Riemannian steps of parameters that live on a manifold, the table rows that the batch used
// (SignSGD), and the running average of the parameters. `geores train` and `geores verify` both use
// it. With rates on the device it reads nothing back and no shape depends on values, so the step
// can be recorded.
//
// Several processes share a step: each has its rows of the batch, gradients and loss are summed
// after the backward passes, and every process takes the same step. Each process has the carry of
// the whole batch and updates its own rows. For a table they exchange the rows that the batch used:
// identifiers and gradients, in the order of the whole batch.
#pragma once

#include <memory>

#include "geores/model/model.h"
#include "geores/ops/run/execution.h"
#include "geores/train/communication/gradient_sum.h"
#include "geores/train/optimizer/optimizer.h"

namespace geores {

struct StepResult {
  Tensor loss;            // of the task, without the auxiliary one; 0-dimensional, detached
  Tensor gradient_norm;   // of the parameters, before clipping
  Tensor auxiliary = {};  // undefined where there is none, and in a group
};

// Learning rates that the host knows.
struct LearningRates {
  LearningRates(double parameters_, double table_ = 0)  // NOLINT: one number is the usual case
      : parameters(parameters_), table(table_) {}
  double parameters, table;
};

class TrainingStep {
 public:
  using Rates = Optimizer::Rates;

  // The model must have its final dtype and device: its parameters move into flat buffers here.
  // `carry`: the carry of the first step (Model::initial_carry).
  TrainingStep(Model& model, const OptimizerOptions& options, const Carry& carry = {},
               const Communicator& communicator = one_process());

  // The inputs of the model's random draws of the next steps (Model::set_pass). `step` is (1) int64
  // on the model's device.
  void set_pass(int64_t seed, const Tensor& step) { pass_ = {.seed = seed, .step = step}; }

  // x and y, this process's rows, are split into `parts` equal pieces whose gradients are summed.
  // whole_terms: terms of the loss over the whole batch, all processes together, one value; undefined
  // where every piece has as many. On a CPU, with learning rates that the host knows, a step whose
  // loss or gradient is not finite changes no weight, moment or count.
  StepResult run(const Tensor& x, const Tensor& y, const LearningRates& rates, int64_t parts = 1,
                 const Tensor& whole_terms = {});
  StepResult run(const Tensor& x, const Tensor& y, const Rates& rates, int64_t parts = 1,
                 const Tensor& whole_terms = {});

  // The same in three calls, for a group whose steps are recorded: a collective runs between two
  // recordings.
  void leave_gradients(const Tensor& x, const Tensor& y, int64_t parts, const Tensor& whole_terms);
  void sum_gradients();
  StepResult update(const Rates& rates);

  const Communicator& communicator() const { return communicator_; }
  GradientSum& sums() { return sums_; }

  // Afterwards this process's carry has the rows of all processes.
  void gather_carry();

  FlatParameters& parameters() { return parameters_; }
  Optimizer& optimizer() { return *optimizer_; }
  const Carry& carry() const { return carry_; }
  Carry& carry() { return carry_; }
  Tensor& average() { return average_; }  // flat, as parameters().values(); undefined: none

 private:
  // Table rows that a batch used, with their gradients.
  struct UsedRows {
    Tensor identifiers, gradients;
  };

  int64_t table_values() const;  // the gradients of a whole batch's rows
  StepResult accumulate_gradients(const Tensor& x, const Tensor& y, int64_t parts,
                                  const Tensor& whole_terms);
  UsedRows take_used_rows();
  Tensor summed_table_gradients();
  template <class Rate>
  StepResult take(const Tensor& x, const Tensor& y, const Rate& rate, int64_t parts,
                  const Tensor& whole_terms);
  template <class Rate>
  StepResult update_after(StepResult done, const Rate& rate, const UsedRows& used);
  template <class Rate>
  StepResult update_by_sums(const Rate& rate);

  Model& model_;
  const Communicator& communicator_;
  Carry carry_;
  Tensor table_;  // undefined: none
  FlatParameters parameters_;
  GradientSum sums_;
  std::unique_ptr<Optimizer> optimizer_;
  Tensor average_, identifiers_;  // identifiers_ (B): of the whole batch, in a group
  PassPosition pass_;
  Tensor one_;  // the gradient of the objective by itself: kept, because creating it takes a kernel
};

// While it lives, the model has the averaged parameters, if there is an average; afterwards the
// trained ones again.
class AveragedParameters {
 public:
  explicit AveragedParameters(TrainingStep& step);
  ~AveragedParameters();
  AveragedParameters(const AveragedParameters&) = delete;
  AveragedParameters& operator=(const AveragedParameters&) = delete;

 private:
  TrainingStep& step_;
  Tensor kept_;
};

}  // namespace geores
