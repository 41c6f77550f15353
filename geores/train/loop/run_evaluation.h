// The evaluations of a run: while it trains, and after its last step.
#pragma once

#include <memory>

#include "geores/train/device/device_loop.h"
#include "geores/train/run/run_folder.h"
#include "geores/train/trainer.h"

namespace geores {

// The parts of a run that its evaluation reads; all outlive it.
struct RunParts {
  const TrainConfig& config;
  const Dataset& dataset;
  const DeviceData& data;
  const Communicator& communicator;
  const Listener& listener;
  const Catalogue& catalogue;
  Model& model;
  TrainingStep& training;
  RunFiles& files;
  RunPosition& position;    // with the best evaluation
  DeviceLoop* device_loop;  // null: there is none
};

class RunEvaluation {
 public:
  virtual ~RunEvaluation() = default;

  // Whether there is an evaluation before this step.
  virtual bool is_due(int64_t step) const = 0;

  // Writes a line of metrics.jsonl.
  virtual void evaluate(int64_t step) = 0;

  // The loss of the last evaluation; 0 before the first.
  virtual double validation() const = 0;

  // After the last step: fills in the result of a run that has not diverged. A loss that is not
  // finite is a divergence.
  virtual void finish(TrainResult& result) = 0;
};

std::unique_ptr<RunEvaluation> sequence_evaluation(const RunParts& parts);
std::unique_ptr<RunEvaluation> puzzle_evaluation(const RunParts& parts);

}  // namespace geores
