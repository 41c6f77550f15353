#include "lab/experiments/language/learning.h"

#include <algorithm>
#include <cmath>

#include "geores/train/run/finished_run.h"
#include "lab/diagnostics/mixer_measures.h"

namespace geores {
namespace {

// Reads one key of the lines of metrics.jsonl.
std::vector<double> logged(const std::string& run, const char* key) {
  std::vector<double> values;
  for (const auto& line : read_metrics(run))
    if (line.contains(key) && line[key].is_number()) values.push_back(line[key].get<double>());
  return values;
}

}  // namespace

RunSize size_of_runs(const Experiment& experiment, const std::string& column,
                     const std::string& arm) {
  const auto config = run_config(experiment.column(column), experiment.arm(arm), 0, {}, {});
  const auto& task = config.task.options;
  // A text's window has one id more than the model reads; other sequences include it.
  const auto length = task.contains("context") ? task.at("context").get<int64_t>()
                                               : task.at("length").get<int64_t>() - 1;
  return {.steps = config.steps, .tokens_a_step = config.batch * length, .clip = config.clip};
}

std::vector<LossAt> validation_losses(const std::string& run_folder) {
  std::vector<LossAt> losses;
  for (const auto& line : read_metrics(run_folder))
    if (line.contains("validation") && line["validation"].is_number())
      losses.push_back({line["step"].get<double>(), line["validation"].get<double>()});
  return losses;
}

LossAt nearest_to(const std::vector<LossAt>& losses, double step) {
  return *std::ranges::min_element(losses, {},
                                   [step](const LossAt& one) { return std::abs(one.step - step); });
}

std::optional<double> first_step_with(const std::vector<LossAt>& losses, double loss) {
  const auto found =
      std::ranges::find_if(losses, [loss](const LossAt& one) { return one.loss <= loss; });
  if (found == losses.end()) return std::nullopt;
  if (found == losses.begin()) return found->step;
  const auto& before = *(found - 1);
  return before.step +
         (found->step - before.step) * (before.loss - loss) / (before.loss - found->loss);
}

Sample train_loss(const CellFindings& cell) {
  std::vector<double> values;
  for (const auto& run : cell.runs) {
    const auto losses = logged(run, "loss");
    const auto count = std::min<size_t>(200, losses.size());
    double sum = 0;
    for (size_t i = losses.size() - count; i < losses.size(); ++i) sum += losses[i];
    if (count > 0) values.push_back(sum / static_cast<double>(count));
  }
  return sample_of(values);
}

double tokens_per_second(const CellFindings& cell) {
  std::vector<double> values;
  for (const auto& run : cell.runs) {
    const auto all = logged(run, "tokens_per_second");
    values.insert(values.end(), all.begin(), all.end());
  }
  if (values.empty()) return std::nan("");
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::optional<NormsOfGradients> norms_of_gradients(const CellFindings& cell, double clip) {
  std::vector<double> norms;
  for (const auto& run : cell.runs) {
    const auto of_run = logged(run, "grad_norm");
    norms.insert(norms.end(), of_run.begin(), of_run.end());
  }
  if (norms.empty()) return std::nullopt;
  const auto found = quantiles(torch::tensor(norms, torch::kFloat64), {0.5, 0.99, 1});
  const auto clipped =
      clip > 0 ? std::ranges::count_if(norms, [clip](double norm) { return norm > clip; }) : 0;
  return NormsOfGradients{found[0], found[1], found[2],
                          static_cast<double>(clipped) / static_cast<double>(norms.size())};
}

}  // namespace geores
