// Sequences to learn from: what every task comes down to.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

#include "geores/base/config.h"

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

// Which data, by the keys and flags of a run. Zero means: as in the paper (tasks.h has the
// numbers).
struct TaskConfig {
  std::string task = "gyroscope";
  std::string data = "";  // folder with train_x.npy, ...: task "folder" reads it
  int64_t train_sequences = 0;
  int64_t validation_sequences = 0;
  int64_t length = 0;  // states per trajectory; one less to learn from
  int64_t data_seed = 42;
  double theta = 0.0;      // near_pi and near_pi_multi: rotation angle
  int64_t vocabulary = 0;  // copy: number of tokens

  Fields fields();
};

// Fails with the nearest name for an unknown task, and for an option that the task does not have.
//
// Generated tasks draw the train sequences and then the validation sequences, both of the sizes
// asked for, as tasks.h says for each: with fewer train sequences, gyroscope, stability and copy
// have other validation sequences than the paper's. A "folder" holds train_x.npy, train_y.npy,
// val_x.npy and val_y.npy, float32 or float64 (N, T, d), all finite; the counts, where given, take
// the first ones.
//
// `cache` is a folder for generated data ("" for none), made if it is not there: a file there is
// used when its recipe is the same, replaced when it has another one or is broken, and never
// half-written.
Dataset load_dataset(const TaskConfig& config, const std::string& cache = "");

}  // namespace geores
