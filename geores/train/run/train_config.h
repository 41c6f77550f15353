// The configuration of a training run, as flags and as keys of its config.json: one flat object
// with the keys of training, of the task and of the model.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "geores/base/config.h"
#include "geores/data/registry.h"
#include "geores/train/catalogue.h"

namespace geores {

// A run has the common keys and those of its task's method (data/task.h), each with the defaults of
// that method.
struct TrainConfig {
  TrainConfig() = default;
  explicit TrainConfig(const std::string& task_name);  // with the defaults of this task

  TaskConfig task;
  ModelConfig model;

  int64_t steps = 2000;
  int64_t batch = 64;
  int64_t seed = 42;
  double lr = 1e-3;
  int64_t warmup = 100;
  double weight_decay = 0.1;
  double clip = 1.0;
  double beta1 = 0.9, beta2 = 0.95;
  std::string schedule = "papers";  // papers or nanogpt; puzzles: constant, cosine or step
  int64_t eval_interval = 100;
  int64_t log_interval = 10;
  int64_t checkpoint_interval = 100;
  std::string device = "cpu";
  std::string precision = "fp32";

  // Of sequences:
  int64_t accumulate = 1;  // micro-batches per step
  double min_lr = 1e-4;
  std::string optimizer = "adamw";
  double epsilon = 1e-8;
  double epochs = 0;  // for text: determines the steps; 0: `steps` does
  int64_t eval_batches = 40;
  int64_t final_eval_batches = 100;
  std::string checkpoint = "none";  // the part that the backward pass recomputes (Recompute)

  // Of puzzles:
  int64_t visits = 0;  // key "epochs": determines the steps where these are 0
  int64_t micro_batch = 0;
  double table_lr = 1e-2, table_decay = 0.1;
  double min_ratio = 0.1;
  double ema = 0.999;
  int64_t eval_rows = 1000;
  int64_t votes = 0;

  // Strict: unknown keys and bad values throw and change nothing. Keys that are not given keep
  // their values, but another task or kind of model starts from its own defaults. "model" may be a
  // kind, or a value of its leading option: {"model": "edelta"} is a transformer with the
  // connection edelta, as every config.json said before there were kinds.
  void read(const nlohmann::json& object, const std::string& where,
            const ModelKinds& kinds = model_kinds());

  // The same for texts of a command line.
  void read_texts(const std::map<std::string, std::string>& given, const std::string& where,
                  const ModelKinds& kinds = model_kinds());

  // All keys with their values, including defaults of task and model.
  nlohmann::json write(const ModelKinds& kinds = model_kinds()) const;

  // Fills in the defaults.
  void complete(const ModelKinds& kinds = model_kinds());

  Fields fields();  // Fields of training: all but the task's and the model's.

  Method method() const { return find_task(task.name).method; }
  int64_t parts(int64_t rows) const;  // micro-batches of so many rows of a process

 private:
  Fields fields_of_sequences();
  Fields fields_of_puzzles();
};

InputShape input_shape(const Dataset& dataset);

// Sets the values that follow from the data: with `epochs` the number of steps, and options of the model.
void complete_from_data(TrainConfig& config, const Dataset& dataset);

// Refuses values that exclude each other, and a batch that `processes` cannot share. Call this
// before they connect: the others would report a process that exits while they connect as lost.
void require_trainable(const TrainConfig& config, int64_t processes);

struct OptimizerOptions;
struct LearningRates;
OptimizerOptions optimizer_options(const TrainConfig& config);
LearningRates learning_rates(const TrainConfig& config, int64_t step);  // step = 0, 1, …

}  // namespace geores
