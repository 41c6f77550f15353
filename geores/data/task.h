// A task: data to learn from, by name and options. Each owns its options and lives in a file pair
// of its own in tasks/; registry.cpp lists them.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "geores/base/option_set.h"
#include "geores/data/dataset.h"

namespace geores {

struct Task {
  std::string name;
  std::string summary;  // one line
  OptionSet options;
  // `options` is complete. `cache` is a folder for generated data, "" for none.
  std::function<Dataset(const nlohmann::json& options, const std::string& cache)> load;
};

}  // namespace geores
