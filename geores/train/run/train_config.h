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

struct TrainConfig {
  TaskConfig task;
  ModelConfig model;

  int64_t steps = 2000;
  int64_t batch = 64;
  int64_t accumulate = 1;  // micro-batches per step
  int64_t seed = 42;
  double lr = 1e-3;
  double min_lr = 1e-4;
  int64_t warmup = 100;
  double weight_decay = 0.1;
  double clip = 1.0;
  std::string optimizer = "adamw";
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // of AdamW
  std::string schedule = "papers";                   // or nanogpt: see schedule.h
  double epochs = 0;  // for text: determines the steps (set_steps_of_epochs); 0: `steps` does

  int64_t eval_interval = 100;
  int64_t eval_batches = 40;
  int64_t final_eval_batches = 100;
  int64_t log_interval = 10;
  int64_t checkpoint_interval = 100;

  std::string device = "cpu";
  std::string precision = "fp32";
  std::string checkpoint = "none";  // the part that the backward pass recomputes (Recompute)

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
};

InputShape input_shape(const Dataset& dataset);

// With `epochs`: the number of steps that reads every window of the train text that many times.
void set_steps_of_epochs(TrainConfig& config, const Dataset& dataset);

struct AdamWOptions;
struct Schedule;
AdamWOptions optimizer_options(const TrainConfig& config);
Schedule learning_rates(const TrainConfig& config);

}  // namespace geores
