// One optimiser step of a recursive model: one pass over all rows, AdamAtan2 for the parameters,
// SignSGD for the table rows of the batch, the running average of the parameters. `geores train`
// and `geores verify` both use it. It reads nothing back from the device and no shape depends on
// values, so the step can be recorded.
//
// Several processes share a step as in training_step.h. For the table they exchange the rows that
// the batch used: identifiers and gradients, in the order of the whole batch.
#pragma once

#include "geores/model/recursive/recursive.h"
#include "geores/train/communication/gradient_sum.h"
#include "geores/train/optimizer/adam_atan2.h"

namespace geores {

struct RecursiveStepOptions {
  AdamAtan2Options adam;
  double table_decay = 0.1;
  double average = 0.999;  // weight of the old average; 0: no average
};

class RecursiveStep {
 public:
  // The model must have its final dtype and device: its parameters move into flat buffers here.
  RecursiveStep(Recursive& model, const RecursiveStepOptions& options, const Carry& carry,
                const Communicator& communicator = one_process());

  struct Rates {
    AdamAtan2::Rates adam;
    Tensor table_rate;  // one value, on the device
  };
  Rates rates(double learning_rate, double table_rate, int64_t t) const;

  struct Result {
    Tensor loss;           // mean over rows, without the gate loss; 0-dimensional, detached
    Tensor gate_loss;      // undefined where there is none
    Tensor gradient_norm;  // of the parameters, before clipping
  };
  // x (B, 1 + T) or (B, T), y (B, T), this process's rows, split into `parts` equal pieces whose
  // gradients are summed.
  Result run(const Tensor& x, const Tensor& y, const Rates& rates, int64_t parts = 1);

  // The same in three calls, for a group whose steps are recorded.
  void leave_gradients(const Tensor& x, const Tensor& y, int64_t parts);
  void sum_gradients();
  Result update(const Rates& rates);

  const Communicator& communicator() const { return communicator_; }

  // Afterwards this process's carry has the rows of all processes.
  void gather_carry();

  FlatParameters& parameters() { return parameters_; }
  AdamAtan2& optimizer() { return optimizer_; }
  Carry& carry() { return carry_; }
  Tensor& average() { return average_; }  // flat, as parameters().values(); undefined: none

 private:
  Result accumulate_gradients(const Tensor& x, const Tensor& y, int64_t parts);
  void step_table(const Tensor& identifiers, const Tensor& gradients, const Tensor& table_rate);
  void finish(const Rates& rates, Result& result);

  // Gradients of the table rows that the last passes used, in order.
  struct UsedRows {
    Tensor identifiers, gradients;
  };
  UsedRows take_used_rows();
  Tensor table_gradients();  // (B, table_values), of the whole batch: among the sums

  Recursive& model_;
  const Communicator& communicator_;
  RecursiveStepOptions options_;
  FlatParameters parameters_;
  GradientSum sums_;
  AdamAtan2 optimizer_;
  Carry carry_;
  Tensor average_;
  Tensor identifiers_;  // (B): of the whole batch, in a group
  bool has_gate_loss_ = false;
};

// While it lives, the model has the averaged parameters; afterwards the trained ones again.
class AveragedParameters {
 public:
  explicit AveragedParameters(RecursiveStep& step);
  ~AveragedParameters();
  AveragedParameters(const AveragedParameters&) = delete;
  AveragedParameters& operator=(const AveragedParameters&) = delete;

 private:
  RecursiveStep& step_;
  Tensor kept_;
};

}  // namespace geores
