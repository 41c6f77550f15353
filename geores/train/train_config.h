// Everything that decides a training run, as flags and as keys of its config.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "geores/base/config.h"
#include "geores/data/dataset.h"
#include "geores/model/transformer.h"

namespace geores {

struct TrainConfig {
  TaskConfig task;
  std::string model = "edelta";  // the connection
  int64_t layers = 6;
  int64_t width = 128;
  int64_t heads = 4;
  int64_t streams = 4;
  nlohmann::json options = nlohmann::json::object();  // of the connection

  int64_t steps = 2000;
  int64_t batch = 64;
  int64_t accumulate = 1;  // micro-batches per step
  int64_t seed = 42;
  double lr = 1e-3;
  double min_lr = 1e-4;
  int64_t warmup = 100;
  double weight_decay = 0.1;
  double clip = 1.0;

  int64_t eval_interval = 100;
  int64_t eval_batches = 40;
  int64_t final_eval_batches = 100;
  int64_t log_interval = 10;
  int64_t checkpoint_interval = 100;

  std::string device = "cpu";
  std::string precision = "fp32";
  bool checkpoint_blocks = false;  // recompute each block in the backward pass

  // All keys, the connection's own included, in one flat object. Strict both ways.
  void read(const nlohmann::json& object, const std::string& where);
  nlohmann::json write() const;

  Fields fields();  // all but the connection's options
};

TransformerConfig model_config(const TrainConfig& config, const Dataset& dataset);

}  // namespace geores
