// The configuration of a training run of a recursive model on puzzles, as flags and as keys of its
// config.json: one flat object with the keys of training and of the model, and "task": "puzzles".
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "geores/model/recursive/recursive_options.h"
#include "geores/train/recursive/recursive_step.h"

namespace geores {

struct PuzzleConfig {
  std::string data;  // folder of the data set
  RecursiveOptions model;

  int64_t steps = 0;   // or
  int64_t epochs = 0;  // visits of every group of puzzles
  int64_t batch = 768;
  int64_t micro_batch = 0;
  int64_t seed = 42;
  double lr = 1e-4, table_lr = 1e-2;
  double weight_decay = 0.1, table_decay = 0.1;
  double beta1 = 0.9, beta2 = 0.95;
  int64_t warmup = 2000;
  std::string schedule = "constant";
  double min_ratio = 0.1;
  double clip = 1.0;
  double ema = 0.999;

  int64_t eval_interval = 1000;
  int64_t eval_rows = 1000;
  int64_t votes = 0;
  int64_t log_interval = 10;
  int64_t checkpoint_interval = 1000;
  std::string device = "cpu";
  std::string precision = "fp32";

  Fields fields();  // of training and of the model

  // Strict: unknown keys and bad values throw and change nothing.
  void read(const nlohmann::json& object, const std::string& where);
  void read_texts(const std::map<std::string, std::string>& given, const std::string& where);
  nlohmann::json write() const;
  void check() const;  // checks options that exclude each other

  int64_t parts() const { return micro_batch > 0 ? batch / micro_batch : 1; }

  // Base of both learning rates at step t = 1, 2, …: linear warm-up, then constant, a cosine to
  // min_ratio, or JPmHC's steps: ×0.316 from 80 % and ×0.1 from 90 % of all steps.
  double rate_factor(int64_t t) const;
  RecursiveStepOptions step_options() const;
};

// Whether a config.json is of this kind.
bool is_puzzle_config(const nlohmann::json& object);

}  // namespace geores
