#include "lab/experiments/own/contrasts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "geores/base/pages/svg.h"
#include "lab/experiments/report.h"

namespace geores {
namespace {

std::vector<double> logarithms(const std::vector<double>& values) {
  std::vector<double> logs;
  for (const auto value : values) logs.push_back(std::log(value));
  return logs;
}

double geometric_mean(const std::vector<double>& values) {
  return std::exp(sample_of(logarithms(values)).mean);
}

// In the order of their first appearance.
std::vector<std::string> distinct(const std::vector<Arm>& arms, std::string Arm::*key) {
  std::vector<std::string> all;
  for (const auto& arm : arms)
    if (std::find(all.begin(), all.end(), arm.*key) == all.end()) all.push_back(arm.*key);
  return all;
}

const Arm* arm_at(const Experiment& experiment, const std::string& row, const std::string& way) {
  for (const auto& arm : experiment.arms)
    if (arm.row == row && arm.way == way) return &arm;
  return nullptr;
}

nlohmann::json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

}  // namespace

std::vector<Contrast> contrasts_of(const ExperimentFindings& findings) {
  std::vector<Contrast> all;
  const auto& arms = findings.experiment.arms;
  for (const auto& column : findings.experiment.columns) {
    const auto add = [&](const Arm& first, const Arm& second) {
      const auto& a = findings.cell(column.name, first.name).best;
      const auto& b = findings.cell(column.name, second.name).best;
      all.push_back({.column = column.label,
                     .first = first.label,
                     .second = second.label,
                     .ratio = geometric_mean(b) / geometric_mean(a),
                     .pairs = share_of_pairs(a, b),
                     .test = welch_test(sample_of(logarithms(a)), sample_of(logarithms(b)))});
    };
    if (!findings.experiment.two_way()) {
      for (std::size_t i = 1; i < arms.size(); ++i) add(arms[i], arms[0]);
      continue;
    }
    for (const auto key : {&Arm::row, &Arm::way})
      for (const auto& value : distinct(arms, key)) {
        const Arm* first = nullptr;
        for (const auto& arm : arms) {
          if (arm.*key != value) continue;
          if (first != nullptr) add(arm, *first);
          if (first == nullptr) first = &arm;
        }
      }
  }
  return all;
}

nlohmann::json contrasts_to_json(const std::vector<Contrast>& contrasts) {
  auto all = nlohmann::json::array();
  for (const auto& one : contrasts)
    all.push_back({{"column", one.column},
                   {"first", one.first},
                   {"second", one.second},
                   {"ratio", finite_or_null(one.ratio)},
                   {"pairs", finite_or_null(one.pairs)},
                   {"t", finite_or_null(one.test.t)},
                   {"p", finite_or_null(one.test.p)}});
  return all;
}

Table contrast_table(const std::vector<Contrast>& contrasts) {
  Table table{
      "Ratio: how many times smaller the geometric mean of the first is. Pairs: of all pairs of a "
      "run of the first and a run of the second, those in which the first is smaller. Welch's "
      "t-test of logarithms, two-sided, not corrected for the number of rows.",
      {"first", "second", "data", "ratio", "pairs", "p"},
      {}};
  for (const auto& one : contrasts)
    table.rows.push_back({one.first, one.second, one.column, fmt::format("{:.2f}", one.ratio),
                          fmt::format("{:.0f} %", 100 * one.pairs),
                          one.test.known() ? fmt::format("{:.2g}", one.test.p) : ""});
  return table;
}

Table two_way_table(const ExperimentFindings& findings, const Column& column) {
  const auto& experiment = findings.experiment;
  const auto ways = distinct(experiment.arms, &Arm::way);
  Table table{"", {""}, {}};
  table.heads.insert(table.heads.end(), ways.begin(), ways.end());
  for (const auto& row : distinct(experiment.arms, &Arm::row)) {
    auto& cells = table.rows.emplace_back();
    cells.push_back(row);
    for (const auto& way : ways) {
      const auto* arm = arm_at(experiment, row, way);
      if (arm == nullptr) {
        cells.push_back("");
        continue;
      }
      const auto& cell = findings.cell(column.name, arm->name);
      cells.push_back(format_sample(sample_of(cell.best)) +
                      (cell.diverged > 0 ? fmt::format(" ({} diverged)", cell.diverged) : ""));
    }
  }
  for (const auto& baseline : findings.baselines.at(column.name)) {
    auto& cells = table.rows.emplace_back(ways.size() + 1);
    cells[0] = "no model: " + baseline.name;
    cells[1] = fmt::format("{:.2e}", baseline.mse);
  }
  return table;
}

std::string seeds_figure(const ExperimentFindings& findings) {
  const auto& experiment = findings.experiment;
  const auto two_way = experiment.two_way();
  auto names = two_way ? distinct(experiment.arms, &Arm::way) : std::vector<std::string>();
  if (!two_way)
    for (const auto& arm : experiment.arms) names.push_back(arm.label);
  // Few ways are labelled below a panel, the arms of a long list at its side, the first one on top.
  if (!two_way) std::reverse(names.begin(), names.end());
  const auto position_of = [&](const std::string& name) {
    return static_cast<double>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  svg::Figure figure{.title = experiment.title,
                     .subtitle = "best evaluation of each seed",
                     .columns = two_way ? 2 : 1,
                     .panel_width = two_way ? 510.0 : 760.0,
                     .panel_height = two_way ? 300.0 : 90 + 18 * static_cast<double>(names.size())};
  for (const auto& column : experiment.columns) {
    svg::Panel panel{.title = column.label};
    const svg::Axis error{.label = "validation MSE", .scale = svg::Scale::Log};
    panel.x = two_way ? svg::Axis{.names = names} : error;
    panel.y = two_way ? error : svg::Axis{.names = names};
    for (const auto& row : distinct(experiment.arms, &Arm::row)) {
      svg::Series means{.name = two_way ? row : "geometric mean"},
          dots{.name = two_way ? row : "a seed", .mark = svg::Mark::Dots, .width = 2.5};
      for (const auto& arm : experiment.arms) {
        if (arm.row != row) continue;
        const auto& values = findings.cell(column.name, arm.name).best;
        const auto at = position_of(two_way ? arm.way : arm.label);
        if (!values.empty()) {
          means.x.push_back(at);
          means.y.push_back(geometric_mean(values));
        }
        for (const auto value : values) {
          dots.x.push_back(two_way ? at : value);
          dots.y.push_back(two_way ? value : at);
        }
      }
      if (two_way) panel.series.push_back(means);
      panel.series.push_back(dots);
    }
    figure.panels.push_back(std::move(panel));
  }
  return svg::render(figure);
}

}  // namespace geores
