// A task: data to learn from, by name and options. Each owns its options and lives in a file pair
// of its own in tasks/; registry.cpp lists them.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "geores/base/option_set.h"
#include "geores/data/dataset.h"

namespace geores {

// How runs on a task are trained: the keys of their config.json, optimiser, order of batches and
// evaluation follow from it (train/).
//   sequences  random or consecutive sequences, AdamW or Muon, a validation loss
//   puzzles    a recursive model with its table, AdamAtan2 and an average of the weights; answers
//              are scored
enum class Method { sequences, puzzles };

struct Task {
  std::string name;
  std::string summary;  // one line
  OptionSet options;
  // `options` is complete. `cache` is a folder for generated data, "" for none.
  std::function<Dataset(const nlohmann::json& options, const std::string& cache)> load;
  Method method = Method::sequences;
};

}  // namespace geores
