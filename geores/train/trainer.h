// Trains one model on one data set. A run is a folder:
//   config.json          what was asked for
//   metrics.jsonl        one object a line: {"step", "loss", "lr", "grad_norm", ...} or
//                        {"step", "validation", ...}
//   checkpoint.safetensors   weights, moments, step and best so far (checkpoint.h). Batches are a
//   pure
//                        function of seed and step, so there is no generator to save.
//   best.safetensors     weights of the best evaluation
//   result.json          written once, at the end
// Killed at any moment and resumed, it gives bit for bit the run that was not killed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "geores/train/train_config.h"

namespace geores {

struct TrainResult {
  int64_t steps = 0;
  double best_validation = 0;  // best of the evaluations on random batches, as the papers report
  int64_t best_step = 0;
  double final_validation = 0;  // random batches after the last step
  double exact_validation = 0;  // over the whole validation set, after the last step
  double exact_best = 0;        // the same with the weights of the best evaluation
  double train_loss = 0;        // of the last step
  double seconds = 0;
  bool diverged = false;  // stopped at a non-finite loss
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

struct RunFolder {
  std::string path = {};  // "" keeps everything in memory: no files, no resume
  bool resume = false;
  bool overwrite = false;
};

TrainResult train(const TrainConfig& config, const Dataset& dataset, const RunFolder& folder,
                  const Listener& listener = {});

// The configuration of the run in a folder.
TrainConfig read_run_config(const std::string& path);

// Mean loss over the whole set in fixed batches: MSE, or cross entropy for tokens.
double exact_loss(Transformer& model, const Tensor& x, const Tensor& y, int64_t batch = 64);

// The model of a finished or interrupted run, with the weights of its best evaluation if there are
// any, else of its last checkpoint; and its configuration.
struct LoadedRun {
  TrainConfig config;
  Dataset dataset;
  std::shared_ptr<Transformer> model;
  int64_t step = 0;
};
LoadedRun load_run(const std::string& path, const std::string& cache = "");

}  // namespace geores
