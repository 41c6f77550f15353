// The sequences of a task, in the form in which all tasks are trained.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/ops/torch.h"
#include "geores/puzzles/dataset.h"

namespace geores {

using torch::Tensor;

// The identity of data in files, which a run stores to detect changes.
struct DataOrigin {
  nlohmann::json facts = nlohmann::json::object();
  std::vector<std::string> companions = {};  // files that a run keeps a copy of, if they are there
};

// Continuous tasks: float32 (N, T, d), y the vectors to predict. Token tasks: int64 (N, T), y the
// ids to predict, −1 where nothing is to be predicted. Text: windows of a row of ids
// (ops/training/sequences.h), with the row itself.
// Puzzles: rows that are made when they are asked for; all tensors are undefined.
struct Dataset {
  std::string task;
  Tensor train_x, train_y;
  Tensor validation_x, validation_y;
  int64_t vocabulary = 0;   // 0 for continuous tasks
  Tensor validation_theta;  // gyroscope: angle of each validation sequence (N); else undefined

  Tensor train_ids, validation_ids;  // text: (n) int16; else undefined
  int64_t before_first = 0;          // text: the id before the first one
  bool by_epochs = false;            // text: each window once an epoch
  int64_t spare_positions = 1;       // positions of a model beyond the length of its sequences
  std::function<void()> require_unchanged = {};  // where files are mapped: refuses changed ones
  DataOrigin origin = {};

  std::shared_ptr<const puzzles::Dataset> puzzle_set;
  nlohmann::json model_options = nlohmann::json::object();  // that follow from the data

  bool text() const { return train_ids.defined(); }
  bool tokens() const { return vocabulary > 0; }
  int64_t length() const { return puzzle_set ? puzzle_set->info().cells() : train_x.size(1); }
  int64_t input_width() const { return tokens() ? 1 : train_x.size(2); }
};

}  // namespace geores
