#include "lab/experiments/studies/study_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lab/experiments/figures.h"

namespace geores {
namespace {

using nlohmann::json;

std::string with_deviation(const json& arm, const std::string& number, double scale) {
  const auto sample = sample_of_arm(arm, number);
  if (!sample.known()) return "–";
  return std::isfinite(sample.deviation)
             ? fmt::format("{:.2f} ± {:.2f}", scale * sample.mean, scale * sample.deviation)
             : fmt::format("{:.2f}", scale * sample.mean);
}

// The same for a predictor without a model; `path` has slashes instead of dots.
std::string plain_number(const json& plain, const std::string& path, double scale) {
  const auto& results = plain["results"];
  const json::json_pointer number_path("/" + path);
  if (!results.contains(number_path) || !results[number_path].is_number()) return "–";
  return fmt::format("{:.2f}", scale * results[number_path].get<double>());
}

std::string with_slashes(std::string number) {
  for (auto& letter : number)
    if (letter == '.') letter = '/';
  return number;
}

struct ShownNumber {
  std::string head, number;
  double scale = 100;
};

// A row for each arm, then one for each predictor without a model. Columns without values are
// omitted.
Table numbers_table(const Study& study, const json& results, std::string explanation,
                    const std::vector<ShownNumber>& columns, bool with_sizes) {
  Table table{std::move(explanation), {"arm"}, {}};
  if (with_sizes) table.heads.insert(table.heads.end(), {"parameters", "MLP", "seeds"});
  for (const auto& column : columns) table.heads.push_back(column.head);
  for (const auto& arm : study.arms) {
    if (!results["arms"].contains(arm.name)) continue;
    const auto& one = results["arms"][arm.name];
    std::vector<std::string> row = {arm.label};
    if (with_sizes)
      row.insert(row.end(), {one["parameters"].dump(), one["mlp_hidden"].dump(),
                             std::to_string(sample_of_arm(one, "exact").count)});
    for (const auto& column : columns)
      row.push_back(with_deviation(one, column.number, column.scale));
    table.rows.push_back(std::move(row));
  }
  for (const auto& plain : results["plain"]) {
    std::vector<std::string> row = {"no model: " + plain["label"].get<std::string>()};
    if (with_sizes) row.insert(row.end(), {"", "", ""});
    for (const auto& column : columns)
      row.push_back(plain_number(plain, with_slashes(column.number), column.scale));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table differences_table(const json& results) {
  Table table{
      "Differences in exact answers, in points; Welch's t, p two-sided, not corrected for the "
      "number of rows.",
      {"arm", "against", "difference", "t", "p"},
      {}};
  const auto number = [](const json& value, const char* form) {
    return value.is_null() ? "–" : fmt::format(fmt::runtime(form), value.get<double>());
  };
  for (const auto& one : results["differences"])
    table.rows.push_back({one["arm"], one["against"],
                          fmt::format("{:+.2f}", 100 * one["difference"].get<double>()),
                          number(one["t"], "{:.2f}"), number(one["p"], "{:.3g}")});
  return table;
}

// The step at which each run begins to solve test puzzles. Runs differ most in this, and a mean at
// the last step hides it.
Table beginnings_table(const Study& study, const json& results) {
  constexpr double shares[] = {0.1, 0.5, 0.9};
  Table table{
      "The step of the first evaluation with so many test puzzles solved, seed by seed. –: none.",
      {"arm"},
      {}};
  for (const auto share : shares) table.heads.push_back(fmt::format("{:.0f} %", 100 * share));
  for (const auto& arm : study.arms) {
    if (!results["arms"].contains(arm.name) || !results["arms"][arm.name].contains("curves"))
      continue;
    std::vector<std::string> row = {arm.label};
    for (const auto share : shares) {
      std::string steps;
      for (const auto& run : results["arms"][arm.name]["curves"]) {
        std::string step = "–";
        for (const auto& point : run["test"])
          if (point["exact"].get<double>() >= share) {
            step = point["step"].dump();
            break;
          }
        steps += (steps.empty() ? "" : ", ") + step;
      }
      row.push_back(std::move(steps));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

struct ShownCurve {
  const char *title, *part, *x, *number, *label;
};

svg::Series curve(const json& arm, const std::string& name, const ShownCurve& shown) {
  std::map<int64_t, std::vector<PositionedValue>> by_step;
  for (const auto& run : arm["curves"])
    for (const auto& point : run[shown.part])
      by_step[point["step"].get<int64_t>()].push_back(
          {point[shown.x].get<double>(), 100 * point[shown.number].get<double>()});
  return mean_curve(name, by_step);
}

// The mean over seeds, call by call, at selected calls.
Table mixing_table(const Study& study, const json& results) {
  Table table{
      "Means over the tokens of eight test puzzles, in the last pass over them, and over seeds. "
      "σ₂: the "
      "second singular value of the product of all H_res up to that call; 1: nothing is lost, 0: "
      "all "
      "streams carry the same.",
      {"arm", "calls", "‖H_res‖, mean", "σ₂ after one call", "a third of them", "all", "γ, mean"},
      {}};
  for (const auto& arm : study.arms) {
    if (!results["arms"].contains(arm.name) || !results["arms"][arm.name].contains("mixing"))
      continue;
    const auto& runs = results["arms"][arm.name]["mixing"];
    const auto mean = [&](const char* key, auto&& of) {
      double sum = 0;
      for (const auto& run : runs) sum += of(run[key].template get<std::vector<double>>());
      return fmt::format("{:.3g}", sum / static_cast<double>(runs.size()));
    };
    const auto all = [](const std::vector<double>& values) { return sample_of(values).mean; };
    const auto calls = runs[0]["product"].size();
    table.rows.push_back({arm.label, std::to_string(calls), mean("norm", all),
                          mean("product", [](const auto& v) { return v.front(); }),
                          mean("product", [&](const auto& v) { return v[(v.size() + 2) / 3 - 1]; }),
                          mean("product", [](const auto& v) { return v.back(); }),
                          runs[0].contains("gate") ? mean("gate", all) : "–"});
  }
  return table;
}

std::string curves_figure(const Study& study, const json& results) {
  svg::Figure figure{.title = study.title, .columns = 3, .panel_width = 360, .panel_height = 250};
  for (const auto& shown : {ShownCurve{"test puzzles", "test", "step", "exact", "exact, %"},
                            {"test puzzles", "test", "seconds", "exact", "exact, %"},
                            {"training puzzles", "train", "step", "exact", "exact, %"},
                            {"test puzzles", "test", "step", "cells", "right cells, %"},
                            {"test puzzles", "test", "seconds", "cells", "right cells, %"},
                            {"training puzzles", "train", "step", "cells", "right cells, %"}}) {
    svg::Panel panel{.title = shown.title};
    panel.x = {.label = shown.x, .from = 0};
    panel.y = {.label = shown.label, .from = 0};
    double most = 0;
    for (const auto& arm : study.arms) {
      if (!results["arms"].contains(arm.name)) continue;
      auto series = curve(results["arms"][arm.name], arm.label, shown);
      if (series.x.size() < 2) continue;
      most = std::max(most, *std::ranges::max_element(series.y));
      panel.series.push_back(std::move(series));
    }
    if (most > 50) panel.y.to = 100;  // otherwise up to the highest value
    if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
  }
  return figure.panels.empty() ? "" : svg::render(figure);
}

}  // namespace

Sample sample_of_arm(const json& arm, const std::string& number) {
  if (!arm.contains("numbers") || !arm["numbers"].contains(number)) return {};
  return sample_of(arm["numbers"][number]["values"].get<std::vector<double>>());
}

Document make_study_report(const Study& study, const json& results) {
  Document document(study.title);
  document.text(study.text);
  std::vector<ShownNumber> columns = {{"exact %", "exact"}, {"cells %", "cells"}};
  if (study.data.kind == "maze") columns.push_back({"shortest path %", "shortest_path"});
  if (study.data.kind == "arc") columns.push_back({"pass@1 %", "pass_at_k.1"});
  columns.insert(columns.end(), {{"LM loss", "lm_loss", 1},
                                 {"halting step", "halting_steps", 1},
                                 {"q right %", "q_halt_accuracy"},
                                 {"ms a step", "step_seconds", 1000}});
  document.heading("Arms").table(numbers_table(
      study, results,
      "Mean ± standard deviation over seeds. MLP: its hidden width, reduced by the mixer's "
      "parameters. Milliseconds are those of concurrent runs if there were any.",
      columns, /*with_sizes=*/true));
  if (study.data.kind == "sudoku")
    document.heading("By difficulty")
        .table(numbers_table(study, results,
                             "Exact answers in %, by how many values a solver has to try.",
                             {{"0", "by_rating.0.exact"},
                              {"1–10", "by_rating.1-10.exact"},
                              {"11–30", "by_rating.11-30.exact"},
                              {"> 30", "by_rating.>30.exact"}},
                             false));
  if (study.data.kind == "arc")
    document.heading("How much is memory")
        .table(numbers_table(
            study, results,
            "pass@2 in %, by votes and sampled, with the puzzle's own identifier, with a blank one "
            "and with that of another puzzle.",
            {{"votes", "pass_at_k.2"},
             {"votes, blank", "blank.pass_at_k.2"},
             {"votes, shuffled", "shuffled.pass_at_k.2"},
             {"sampled", "sampled_pass_at_k.2"},
             {"sampled, blank", "blank.sampled_pass_at_k.2"},
             {"sampled, shuffled", "shuffled.sampled_pass_at_k.2"}},
            false));
  if (auto mixing = mixing_table(study, results); !mixing.rows.empty())
    document.heading("Measurements of the mixers").table(std::move(mixing));
  document.heading("Differences").table(differences_table(results));
  if (auto beginnings = beginnings_table(study, results); !beginnings.rows.empty())
    document.heading("When they begin").table(std::move(beginnings));
  if (const auto figure = curves_figure(study, results); !figure.empty())
    document.heading("Learning")
        .figure("curves", figure,
                "Exact answers and right cells, mean over seeds in a band of one standard "
                "deviation; the last point is of all test puzzles. Seconds are those of runs "
                "side by side.");
  return document;
}

}  // namespace geores
