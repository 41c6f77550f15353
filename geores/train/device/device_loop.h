// The two loops of a run on a GPU, training and evaluation, each recorded as one CUDA graph. All
// that changes from step to step (which sequences, learning rate, bias corrections) lies in tables
// on the device, looked up by a counter that is there too, so nothing passes between host and
// device until somebody asks for a number. A model's carry lies there as well and is overwritten in
// place. In a group of processes the training step is two graphs, with the sum over all processes
// between them: forward and backward pass, then optimiser.
#pragma once

#include <memory>
#include <optional>

#include "geores/data/batch_sampler.h"
#include "geores/ops/training/step_tables.h"
#include "geores/train/device/recorded_work.h"
#include "geores/train/run/train_config.h"
#include "geores/train/training_step.h"

namespace geores {

struct DeviceData {
  Tensor train_x, train_y, validation_x, validation_y;  // on the device
};

enum class EvaluatedSet { validation, train };

class DeviceLoop {
 public:
  // Training goes on at `first_step`. Everything given must outlive the loop. From here on the
  // parameters are kept ready for the next step (flat_parameters.h). `batches`: this process's rows of
  // each step's. `terms`: what TrainingStep::run calls whole_terms, by step; none: undefined.
  DeviceLoop(Model& model, TrainingStep& training, const TrainConfig& config,
             const DeviceData& data, const std::vector<std::vector<int64_t>>& batches,
             int64_t first_step, const std::vector<double>& terms = {});

  void step();

  // Of a step, once it is recorded.
  int64_t kernels() const { return training_work_.kernels() + update_work_.kernels(); }

  struct Numbers {
    double loss, gradient_norm;
  };
  Numbers numbers(int64_t step) const;  // of a step that was taken; waits for it

  // Of the steps first..end - 1, the first one whose loss or gradient is not finite.
  std::optional<int64_t> first_not_finite(int64_t first, int64_t end) const;

  // Mean loss over these batches of sequences, all of the run's batch size.
  double evaluate(const std::vector<std::vector<int64_t>>& drawn,
                  EvaluatedSet set = EvaluatedSet::validation);

 private:
  bool in_group() const { return training_.communicator().is_group(); }
  Tensor terms_of_step() const;
  AdamW::Rates rates_of(const Tensor& rates) const;
  void train_work();   // a whole step; in a group as far as the gradients
  void update_work();  // in a group: the rest
  void evaluate_work(const Tensor& x, const Tensor& y);

  Model& model_;
  TrainingStep& training_;
  const TrainConfig& config_;
  const DeviceData& data_;
  torch::Device device_;
  int64_t next_step_;

  StepTables tables_;                            // rates: learning rate, bias corrections
  Tensor terms_;                                 // (steps), or undefined
  Tensor evaluation_step_;                       // (1)
  Tensor evaluation_losses_;                     // (most batches)
  Tensor evaluation_rows_, evaluation_weights_;  // (most batches, batch)
  RecordedWork training_work_, update_work_, evaluation_work_, train_loss_work_;
};

}  // namespace geores
