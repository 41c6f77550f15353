// A meter writes one key of metrics.jsonl: after training steps that are logged, at evaluations, or
// both. Each one is a header in this folder; registry.cpp lists them.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "geores/model/model.h"

namespace geores {

// The data of a training step.
struct StepReading {
  int64_t step = 0;
  double loss = 0;           // of the task
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  int64_t tokens = 0;  // since the last line
  double elapsed = 0;  // seconds since the last line
  double seconds = 0;  // of the whole run
  Model& model;
  const Tensor& parameters;  // all trained parameters, flat
  const Carry& carry;
};

// The data of an evaluation.
class EvaluationReading {
 public:
  EvaluationReading(int64_t step_, double validation_, std::optional<double> train_, Model& model_,
                    const Carry& carry_, const Tensor& sample)
      : step(step_),
        validation(validation_),
        train(train_),
        model(model_),
        carry(carry_),
        sample_(sample) {}

  const int64_t step;
  const double validation;            // mean loss over random validation batches
  const std::optional<double> train;  // text: the same over as many random train batches
  Model& model;
  const Carry& carry;  // of the next training step

  // Probes of a pass over a few validation sequences, made when the first meter asks.
  const Trace& probes() const;

 private:
  const Tensor& sample_;
  mutable std::unique_ptr<Trace> probes_;
};

struct Meter {
  std::string key;
  std::string summary;  // one line
  // Either function may be missing or return null; the key is then left out.
  nlohmann::json (*after_step)(const StepReading&) = nullptr;
  nlohmann::json (*at_evaluation)(const EvaluationReading&) = nullptr;
};
using Meters = std::vector<Meter>;

const Meters& meters();

// A line of metrics.jsonl.
nlohmann::json read_meters(const Meters& meters, const StepReading& reading);
nlohmann::json read_meters(const Meters& meters, const EvaluationReading& reading);

}  // namespace geores
