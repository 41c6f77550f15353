// One optimiser step of a recursive model: one pass over all rows, AdamAtan2 for the parameters,
// SignSGD for the table rows of the batch, the running average of the parameters. The one place where
// such a model is trained: `geores train` and `geores verify` both go through it. Nothing is read back
// from the device, and no shape depends on values: the step can be recorded.
#pragma once

#include "geores/model/recursive/recursive.h"
#include "geores/train/optimizer/adam_atan2.h"

namespace geores {

struct RecursiveStepOptions {
  AdamAtan2Options adam;
  double table_decay = 0.1;
  double average = 0.999;  // share of the old average that stays; 0: no average
};

class RecursiveStep {
 public:
  // The model must have its final dtype and device: its parameters move into flat buffers here.
  RecursiveStep(Recursive& model, const RecursiveStepOptions& options, const Carry& carry);

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
  // x (B, 1 + T) or (B, T), y (B, T), split into `parts` equal pieces whose gradients are summed.
  Result run(const Tensor& x, const Tensor& y, const Rates& rates, int64_t parts = 1);

  FlatParameters& parameters() { return parameters_; }
  AdamAtan2& optimizer() { return optimizer_; }
  Carry& carry() { return carry_; }
  Tensor& average() { return average_; }  // flat, as parameters().values(); undefined: none

 private:
  Result accumulate_gradients(const Tensor& x, const Tensor& y, int64_t parts);
  void step_table(const Tensor& table_rate);

  Recursive& model_;
  RecursiveStepOptions options_;
  FlatParameters parameters_;
  AdamAtan2 optimizer_;
  Carry carry_;
  Tensor average_;
};

// While it lives, the model has the averaged parameters; afterwards those of training again.
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
