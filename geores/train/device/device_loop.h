// The two loops of a run on a GPU, training and evaluation, each recorded as one CUDA graph. All
// that changes from step to step (which sequences, learning rate, bias corrections) lies in tables
// on the device, looked up by a counter that is there too, so nothing passes between host and
// device until somebody asks for a number. A model's carry lies there as well and is overwritten in
// place.
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

class DeviceLoop {
 public:
  // Training goes on at `first_step`. Everything given must outlive the loop. From here on the
  // parameters are kept ready for the next step (flat_parameters.h).
  DeviceLoop(Model& model, TrainingStep& training, const TrainConfig& config,
             const DeviceData& data, const std::vector<std::vector<int64_t>>& batches,
             int64_t first_step);

  void step();

  int64_t kernels() const { return training_work_.kernels(); }  // of a step, once it is recorded

  struct Numbers {
    double loss, gradient_norm;
  };
  Numbers numbers(int64_t step) const;  // of a step that was taken; waits for it

  // Of the steps first..end - 1, the first one whose loss or gradient is not finite.
  std::optional<int64_t> first_not_finite(int64_t first, int64_t end) const;

  // Mean loss over these batches of validation sequences, all of the run's batch size.
  double evaluate(const std::vector<std::vector<int64_t>>& drawn);

 private:
  void train_work();
  void evaluate_work();

  Model& model_;
  TrainingStep& training_;
  const TrainConfig& config_;
  const DeviceData& data_;
  torch::Device device_;
  int64_t next_step_;

  StepTables tables_;                            // rates: learning rate, bias corrections
  Tensor evaluation_step_, evaluation_sum_;      // (1)
  Tensor evaluation_rows_, evaluation_weights_;  // (most batches, batch)
  RecordedWork training_work_, evaluation_work_;
};

}  // namespace geores
