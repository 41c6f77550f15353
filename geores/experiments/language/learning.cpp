#include "geores/experiments/language/learning.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/diagnostics/mixer_measures.h"

namespace geores {
namespace {

// A key of the lines of metrics.jsonl.
std::vector<double> logged(const std::string& run, const char* key) {
  std::vector<double> values;
  for (const auto& line : read_metrics(run))
    if (line.contains(key) && line[key].is_number()) values.push_back(line[key].get<double>());
  return values;
}

nlohmann::json file_of_run(const std::string& run, const char* name) {
  const auto path = std::filesystem::path(run) / name;
  return parse_json(read_text_file(path), path.string());
}

}  // namespace

RunSize size_of_run(const std::string& run_folder) {
  const auto config = file_of_run(run_folder, "config.json");
  const auto length = file_of_run(run_folder, "model.json").at("data").at("length").get<int64_t>();
  return {.steps = config.at("steps").get<int64_t>(),
          .tokens_a_step = config.at("batch").get<int64_t>() * length,
          .clip = config.at("clip").get<double>()};
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

std::optional<NormsOfGradients> norms_of_gradients(const CellFindings& cell) {
  std::vector<double> norms;
  int64_t clipped = 0;
  for (const auto& run : cell.runs) {
    const auto of_run = logged(run, "grad_norm");
    if (of_run.empty()) continue;
    if (const auto clip = size_of_run(run).clip; clip > 0)
      clipped += std::ranges::count_if(of_run, [clip](double norm) { return norm > clip; });
    norms.insert(norms.end(), of_run.begin(), of_run.end());
  }
  if (norms.empty()) return std::nullopt;
  const auto found = quantiles(torch::tensor(norms, torch::kFloat64), {0.5, 0.99, 1});
  return NormsOfGradients{found[0], found[1], found[2],
                          static_cast<double>(clipped) / static_cast<double>(norms.size())};
}

}  // namespace geores
