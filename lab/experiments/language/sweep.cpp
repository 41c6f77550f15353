#include "lab/experiments/language/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace geores {
namespace {

nlohmann::json rates(double rate) { return {{"lr", rate}, {"min_lr", rate / 10}}; }

}  // namespace

std::string swept_name(const std::string& arm, double rate) {
  return fmt::format("{}@{:g}", arm, rate);
}

Experiment sweep_of(const Experiment& experiment) {
  auto sweep = experiment;
  sweep.name += "_rates";
  sweep.title += ": learning rates";
  sweep.arms.clear();
  for (const auto& arm : experiment.arms)
    for (const auto rate : experiment.rates) {
      auto one = arm;
      one.name = swept_name(arm.name, rate);
      one.label = fmt::format("{}, {:g}", arm.label, rate);
      one.config.update(rates(rate));
      sweep.arms.push_back(one);
    }
  return sweep;
}

Scale sweep_scale(const Scale& scale) {
  auto one = scale;
  one.chosen_seeds = {42};
  return one;
}

Experiment settled(const Experiment& experiment, const ExperimentFindings& sweep) {
  auto result = experiment;
  for (auto& arm : result.arms)
    for (const auto& column : experiment.columns) {
      double lowest = std::numeric_limits<double>::infinity();
      for (const auto rate : experiment.rates) {
        const auto& cell = sweep.cell(column.name, swept_name(arm.name, rate));
        if (cell.exact.empty() || !(cell.exact.front() < lowest)) continue;
        lowest = cell.exact.front();
        arm.at[column.name].update(rates(rate));
      }
    }
  return result;
}

Experiment at_first_rate(const Experiment& experiment) {
  auto result = experiment;
  if (!experiment.rates.empty())
    for (auto& arm : result.arms) arm.config.update(rates(experiment.rates.front()));
  return result;
}

double rate_of(const Arm& arm, const std::string& column) {
  const auto here = arm.at.find(column);
  if (here != arm.at.end() && here->second.contains("lr")) return here->second["lr"].get<double>();
  return arm.config.value("lr", TrainConfig().lr);
}

}  // namespace geores
