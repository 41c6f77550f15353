// The training and the evaluation loop of a run on a GPU, each recorded as one CUDA graph. All that
// changes from step to step (indices of sequences, learning rate, bias corrections) is in tables on
// the device, indexed by a counter on the device, so no data passes between host and device until a
// number is read. Batches that are made on the host are copied to one buffer before each step. A
// model's carry is on the device too and is updated in place. In a group of
// processes the training step is two graphs (forward and backward pass; optimiser) with the
// all-reduce between them.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "geores/ops/training/step_tables.h"
#include "geores/train/device/recorded_work.h"
#include "geores/train/loop/training_batches.h"
#include "geores/train/training_step.h"

namespace geores {

enum class EvaluatedSet { validation, train };

// The batch of a step, a function of its number alone: which rows of the resident data, or values
// that were made on the host; all steps have the same kind.
struct LoopBatch {
  std::vector<int64_t> rows;    // this process's rows of the batch
  std::optional<double> terms;  // whole_terms of TrainingStep::run; every step has it or none
  std::optional<Batch> made = {};
};
using LoopBatches = std::function<LoopBatch(int64_t step)>;

class DeviceLoop {
 public:
  // The batches of so many steps are on the device at once.
  static constexpr int64_t kWindow = 4096;

  // Training goes on at `first_step`. Everything given must outlive the loop. From here on the
  // parameters are kept ready for the next step (flat_parameters.h).
  DeviceLoop(Model& model, TrainingStep& training, const TrainConfig& config,
             const DeviceData& data, LoopBatches batches, int64_t first_step,
             int64_t window = kWindow);

  void step();

  // The results of one step, once it is recorded.
  int64_t kernels() const { return training_work_.kernels() + update_work_.kernels(); }

  struct Numbers {
    double loss, gradient_norm;
  };
  Numbers numbers(int64_t step) const;  // of a step that was taken; waits for it

  // The first of the steps first..end - 1 whose loss or gradient is not finite.
  std::optional<int64_t> first_not_finite(int64_t first, int64_t end) const;

  // Mean loss over these batches of sequences, all of the run's batch size.
  double evaluate(const std::vector<std::vector<int64_t>>& drawn,
                  EvaluatedSet set = EvaluatedSet::validation);

 private:
  bool in_group() const { return training_.communicator().is_group(); }
  bool is_made() const { return made_.x.defined(); }
  void fill_window();  // with the batches of the next step and those after it
  Tensor terms_of_step() const;
  StepInput input_of_step() const;
  TrainingStep::Rates rates_of(const Tensor& rates) const;
  void train_work();   // a whole step; in a group up to the gradients
  void update_work();  // in a group: the optimiser
  void evaluate_work(const Tensor& x, const Tensor& y);

  Model& model_;
  TrainingStep& training_;
  const TrainConfig& config_;
  const DeviceData& data_;
  torch::Device device_;
  LoopBatches batches_;
  int64_t parts_, next_step_, window_;

  StepTables tables_;         // rates: learning rate, bias corrections, learning rate of a table
  Batch made_;                // of the next step, or undefined
  Tensor terms_;              // (window), or undefined
  Tensor evaluation_step_;    // (1)
  Tensor evaluation_losses_;  // (most batches)
  Tensor evaluation_rows_, evaluation_weights_;  // (most batches, batch)
  RecordedWork training_work_, update_work_, evaluation_work_, train_loss_work_;
};

}  // namespace geores
