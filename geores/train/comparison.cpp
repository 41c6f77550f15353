#include "geores/train/comparison.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "geores/base/error.h"
#include "geores/base/pages/svg.h"
#include "geores/train/run/finished_run.h"
#include "geores/train/run/run_folder.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

double number_at(const nlohmann::json& result, const char* key) {
  const auto& value = result.at(key);
  return value.is_number() ? value.get<double>() : std::nan("");
}

svg::Series metric_series(const ComparedRun& run, const char* key) {
  svg::Series series{.name = run.name};
  for (const auto& line : read_metrics(run.folder))
    if (const auto found = line.find(key); found != line.end() && found->is_number()) {
      series.x.push_back(line.at("step").get<double>());
      series.y.push_back(found->get<double>());
    }
  return series;
}

}  // namespace

Table Comparison::table() const {
  Table table{
      "",
      {"run", "model", "parameters", "steps", "seconds", "best evaluation", "whole validation set"},
      {}};
  std::vector<double> best, exact;
  const auto add = [&](std::vector<std::string> row, double best_evaluation, double loss) {
    row.push_back(std::isfinite(loss) ? fmt::format("{:.3e}", loss) : "diverged");
    table.rows.push_back(std::move(row));
    best.push_back(best_evaluation);
    exact.push_back(loss);
  };
  for (const auto& run : runs) {
    const auto best_evaluation = number_at(run.result, "best_validation");
    add({run.name, run.config.model.label(), run.result.at("parameters").dump(),
         run.result.at("steps").dump(), fmt::format("{:.0f}", number_at(run.result, "seconds")),
         fmt::format("{:.3e}", best_evaluation)},
        best_evaluation, number_at(run.result, "exact_best"));
  }
  for (const auto& baseline : baselines)
    add({"no model: " + baseline.name, "", "", "", "", ""}, std::nan(""), baseline.mse);
  mark_lowest(table, 5, best);
  mark_lowest(table, 6, exact);
  return table;
}

// The best run, and whether a predictor that learns nothing is better still.
std::string Comparison::conclusion() const {
  const ComparedRun* best = nullptr;
  double lowest = std::numeric_limits<double>::infinity();
  for (const auto& run : runs)
    if (const auto loss = number_at(run.result, "exact_best"); loss < lowest)
      best = &run, lowest = loss;
  if (best == nullptr) return "No run here has a finite loss.";
  const auto sentence =
      runs.size() == 1
          ? fmt::format("{} ends at {:.2e}.", best->name, lowest)
          : fmt::format("{} has the lowest error of these runs, {:.2e}.", best->name, lowest);
  const auto trivial =
      std::ranges::min_element(baselines, {}, [](const auto& baseline) { return baseline.mse; });
  if (trivial == baselines.end() || !(trivial->mse < lowest)) return sentence;
  auto name = trivial->name;
  std::ranges::replace(name, '_', ' ');
  return sentence + fmt::format(" A predictor that learns nothing, “{}”, is better: {:.2e}.", name,
                                trivial->mse);
}

Document Comparison::page() const {
  Document document(fmt::format("{} {} on {}", runs.size(), runs.size() == 1 ? "run" : "runs",
                                runs.front().config.task.name));
  document.conclusion(conclusion());
  auto shown = table();
  shown.explanation =
      "Best evaluation: lowest of the evaluations on random batches while training. Whole "
      "validation set: the same weights, exactly. The lowest value of each of these columns is "
      "marked, be it a model's or not.";
  document.table(shown);
  svg::Figure figure{.columns = 2, .panel_width = 510, .panel_height = 290};
  const auto add = [&](const char* key, const char* title) {
    svg::Panel panel{.title = title};
    panel.x.label = "step";
    panel.y.scale = svg::Scale::Log;
    for (const auto& run : runs) panel.series.push_back(metric_series(run, key));
    figure.panels.push_back(std::move(panel));
  };
  add("validation", "Validation loss");
  add("loss", "Training loss");
  add("grad_norm", "Gradient norm before clipping");
  add("param_norm", "Norm of all parameters");
  return document.figure("comparison", figure, "Every run against the training step.");
}

nlohmann::json Comparison::to_json() const {
  nlohmann::json object = {{"runs", nlohmann::json::array()},
                           {"trivial_baselines", nlohmann::json::object()}};
  for (const auto& run : runs)
    object["runs"].push_back(
        {{"folder", run.folder}, {"config", run.config.write()}, {"result", run.result}});
  for (const auto& baseline : baselines) object["trivial_baselines"][baseline.name] = baseline.mse;
  return object;
}

Comparison compare_runs(const std::vector<std::string>& folders, const std::string& cache) {
  require(!folders.empty(), "compare", "no runs were given");
  Comparison comparison;
  for (const auto& folder : folders) {
    auto config = read_run_config(folder);
    config.task.require_sequences();
    require(fs::exists(fs::path(folder) / "result.json"), "compare",
            "{} is not finished; continue it with geores train --resume", folder);
    if (!comparison.runs.empty()) {
      const auto wanted = comparison.runs.front().config.task.completed().to_json(),
                 found = config.task.completed().to_json();
      for (const auto& [key, value] : wanted.items())
        require(found.value(key, nlohmann::json()) == value, "compare",
                "{} and {} learned from other data: '{}' {} and {}", folders.front(), folder, key,
                value.dump(), found.value(key, nlohmann::json()).dump());
    }
    const auto path = fs::path(folder).lexically_normal();
    const auto name = (path.has_filename() ? path : path.parent_path()).filename().string();
    comparison.runs.push_back({folder, name, config, read_result(folder)});
  }
  const auto data = load_dataset(comparison.runs.front().config.task, cache);
  comparison.baselines = trivial_baselines(data);
  return comparison;
}

}  // namespace geores
