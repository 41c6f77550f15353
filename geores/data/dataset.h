// Sequences to learn from: what every task comes down to.
#pragma once

#include <cstdint>
#include <string>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// Continuous tasks: float32 (N, T, d), y the vectors to predict. Token tasks: int64 (N, T), y the
// ids to predict, −1 where nothing is to be predicted.
struct Dataset {
  std::string task;
  Tensor train_x, train_y;
  Tensor validation_x, validation_y;
  int64_t vocabulary = 0;   // 0 for continuous tasks
  Tensor validation_theta;  // gyroscope: angle of each validation sequence (N); else undefined

  bool tokens() const { return vocabulary > 0; }
  int64_t length() const { return train_x.size(1); }
  int64_t input_width() const { return tokens() ? 1 : train_x.size(2); }
};

}  // namespace geores
