// Trains one model on one data set. A run is a folder (run_folder.h). Killed at any moment and
// resumed, it gives bit for bit the run that was not killed.
#pragma once

#include <functional>
#include <string>

#include "geores/train/run/run_folder.h"
#include "geores/train/run/train_config.h"

namespace geores {

struct TrainResult {
  int64_t steps = 0;
  double best_validation = 0;  // best of the evaluations on random batches, as the papers report
  int64_t best_step = 0;
  double final_validation = 0;  // random batches after the last step
  double exact_validation = 0;  // over the whole validation set, after the last step
  double exact_best = 0;        // the same with the weights of the best evaluation
  double train_loss = 0;        // of the last step
  double seconds = 0;           // earlier legs of a resumed run included
  bool diverged = false;        // stopped at a non-finite loss
  int64_t parameters = 0;

  nlohmann::json to_json() const;
};

// Called now and then on long work; step of total, and the latest numbers.
struct Progress {
  int64_t step = 0, total = 0;
  double loss = 0, validation = 0, seconds = 0;
};

// Who watches a run; either may be empty.
struct Listener {
  std::function<void(const Progress&)> progress;
  std::function<void(const std::string&)> notice;  // something a person should know, one line
};

TrainResult train(const TrainConfig& config, const Dataset& dataset, const RunFolder& folder,
                  const Listener& listener = {}, const Catalogue& catalogue = built_in());

}  // namespace geores
