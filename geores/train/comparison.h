// Compares finished runs on the same data with each other and with trivial predictors.
#pragma once

#include <string>
#include <vector>

#include "geores/base/pages/document.h"
#include "geores/data/baselines.h"
#include "geores/train/run/train_config.h"

namespace geores {

struct ComparedRun {
  std::string folder, name;  // name: of the folder
  TrainConfig config;
  nlohmann::json result;  // result.json
};

struct Comparison {
  std::vector<ComparedRun> runs;
  std::vector<Baseline> baselines;

  // In each column of losses the lowest is marked, be it of a model or not.
  Table table() const;
  std::string conclusion() const;
  Document page() const;
  nlohmann::json to_json() const;
};

// Refuses a run that is not finished or was trained on other data than the first.
Comparison compare_runs(const std::vector<std::string>& folders, const std::string& cache = "");

}  // namespace geores
