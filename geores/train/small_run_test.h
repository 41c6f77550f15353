// A data set and a configuration that train in a second.
#pragma once

#include <string>
#include <vector>

#include "geores/train/trainer.h"

namespace geores {

// Each vector is the previous one, rotated slightly: there is something to learn.
inline Dataset small_dataset() {
  torch::manual_seed(1);
  const auto start = torch::randn({24, 1, 4});
  std::vector<Tensor> states = {start};
  const auto turn = torch::tensor({{0.8f, -0.6f, 0.0f, 0.0f},
                                   {0.6f, 0.8f, 0.0f, 0.0f},
                                   {0.0f, 0.0f, 0.0f, -1.0f},
                                   {0.0f, 0.0f, 1.0f, 0.0f}});
  for (int t = 0; t < 6; ++t) states.push_back(states.back().matmul(turn));
  const auto all = torch::cat(states, 1);
  Dataset data;
  data.task = "test";
  data.train_x = all.slice(0, 0, 16).slice(1, 0, 6).contiguous();
  data.train_y = all.slice(0, 0, 16).slice(1, 1, 7).contiguous();
  data.validation_x = all.slice(0, 16).slice(1, 0, 6).contiguous();
  data.validation_y = all.slice(0, 16).slice(1, 1, 7).contiguous();
  return data;
}

inline TrainConfig small_config(const std::string& connection = "edelta") {
  TrainConfig config;
  config.model.options = {{"connection", connection}, {"layers", 2}, {"width", 16}, {"heads", 2}};
  config.steps = 30;
  config.batch = 4;
  config.warmup = 5;
  config.eval_interval = 6;
  config.eval_batches = 2;
  config.final_eval_batches = 3;
  config.log_interval = 2;
  config.checkpoint_interval = 4;
  return config;
}

}  // namespace geores
