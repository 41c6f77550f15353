// The learning curves of a cell's runs, from their metrics.jsonl and their configuration.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lab/experiments/findings.h"

namespace geores {

// For all runs of a cell.
struct RunSize {
  int64_t steps = 0, tokens_a_step = 0;
  double clip = 0;
};
RunSize size_of_runs(const Experiment& experiment, const std::string& column,
                     const std::string& arm);

// Losses on random validation batches, in order of steps; that of the untrained model is the first.
struct LossAt {
  double step, loss;
};
std::vector<LossAt> validation_losses(const std::string& run_folder);

// The evaluation nearest to a step. `losses` may not be empty.
LossAt nearest_to(const std::vector<LossAt>& losses, double step);

// The first step with at most this loss, linear between two evaluations; nullopt if it is not
// reached.
std::optional<double> first_step_with(const std::vector<LossAt>& losses, double loss);

// The mean of the last 200 logged steps of each run, as sHC reports its train loss.
Sample train_loss(const CellFindings& cell);

// Median over the logged steps of all runs.
double tokens_per_second(const CellFindings& cell);

// Norms before clipping, over all logged steps of all runs; nullopt where none was logged.
struct NormsOfGradients {
  double median, high, most;  // high: 99 %
  double clipped;             // share of steps whose norm is above `clip`; 0: no clipping
};
std::optional<NormsOfGradients> norms_of_gradients(const CellFindings& cell, double clip);

}  // namespace geores
