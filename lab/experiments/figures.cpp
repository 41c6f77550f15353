#include "lab/experiments/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "geores/base/pages/svg.h"
#include "geores/train/run/finished_run.h"

namespace geores {
namespace {

using Curve = std::map<double, std::vector<double>>;  // values of all seeds by x

svg::Series series_of(const std::string& name, const Curve& curve) {
  svg::Series series{.name = name};
  for (const auto& [x, values] : curve) {
    series.x.push_back(x);
    series.y.push_back(sample_of(values).mean);
  }
  return series;
}

// One key of metrics.jsonl by step; key[index] for a list.
Curve metric_curve(const std::vector<std::string>& runs, const std::string& key, int index = -1) {
  Curve curve;
  for (const auto& run : runs)
    for (const auto& line : read_metrics(run)) {
      const auto found = line.find(key);
      if (found == line.end() || found->is_null()) continue;
      const auto& value = index < 0 ? *found : found->at(static_cast<std::size_t>(index));
      curve[line.at("step").get<double>()].push_back(value.get<double>());
    }
  return curve;
}

svg::Series level(const std::string& name, double from, double to, double y) {
  return {
      .name = name, .x = {from, to}, .y = {y, y}, .color = "#555555", .width = 1.2, .dash = "6 4"};
}

void add_dots(svg::Panel& panel, svg::Series series) {
  panel.series.push_back(series);
  series.mark = svg::Mark::Dots;
  series.width = 3;
  panel.series.push_back(std::move(series));
}

}  // namespace

svg::Series mean_curve(const std::string& name,
                       const std::map<int64_t, std::vector<PositionedValue>>& by_step) {
  svg::Series series{.name = name};
  for (const auto& [step, points] : by_step) {
    double x = 0;
    std::vector<double> values;
    for (const auto& point : points) {
      x += point.x / static_cast<double>(points.size());
      values.push_back(point.y);
    }
    const auto sample = sample_of(values);
    const auto spread = values.size() > 1 ? sample.deviation : 0;
    series.x.push_back(x);
    series.y.push_back(sample.mean);
    series.low.push_back(sample.mean - spread);
    series.high.push_back(sample.mean + spread);
  }
  return series;
}

std::string training_figure(const ExperimentFindings& findings) {
  svg::Figure figure{.title = "Training", .columns = 2, .panel_width = 510, .panel_height = 270};
  for (const auto& column : findings.experiment.columns) {
    svg::Panel loss{.title = column.label + ": validation MSE"};
    loss.x.label = "step";
    loss.y = {.label = "MSE", .scale = svg::Scale::Log};
    svg::Panel gradient{.title = column.label + ": gradient norm before clipping"};
    gradient.x.label = "step";
    gradient.y = {.label = "norm", .scale = svg::Scale::Log};
    double last = 1;
    for (const auto& arm : findings.experiment.arms) {
      const auto& cell = findings.cell(column.name, arm.name);
      loss.series.push_back(series_of(arm.label, metric_curve(cell.runs, "validation")));
      gradient.series.push_back(series_of(arm.label, metric_curve(cell.runs, "grad_norm")));
      gradient.series.back().width = 1.0;
      if (!loss.series.back().x.empty()) last = std::max(last, loss.series.back().x.back());
    }
    const auto& best = best_baseline(findings.baselines.at(column.name));
    loss.note = fmt::format("dashed: no model, {} ({:.2g})", best.name, best.mse);
    // The exact linear map is decades below everything else and would flatten the curves.
    if (best.mse > 1e-9)
      loss.series.push_back(level("best predictor without a model", 0, last, best.mse));
    figure.panels.push_back(std::move(loss));
    figure.panels.push_back(std::move(gradient));
  }
  return svg::render(figure);
}

std::string theta_figure(const ExperimentFindings& findings) {
  svg::Figure figure{.title = "Towards θ = π", .panel_width = 760, .panel_height = 320};
  svg::Panel panel{.title = "validation MSE by angle per step"};
  panel.x.label = "θ";
  panel.y = {.label = "MSE", .scale = svg::Scale::Log};
  for (const auto& arm : findings.experiment.arms) {
    Curve curve;
    for (const auto& column : findings.experiment.columns)
      curve[column.config.at("theta").get<double>()] = findings.cell(column.name, arm.name).best;
    add_dots(panel, series_of(arm.label, curve));
  }
  // The linear map, exact at every angle, would flatten the other curves.
  Curve running_mean;
  for (const auto& column : findings.experiment.columns)
    for (const auto& baseline : findings.baselines.at(column.name))
      if (baseline.name == "running_mean")
        running_mean[column.config.at("theta").get<double>()] = {baseline.mse};
  panel.note = "below everything, at about 1e-18: one linear map fitted on the train set";
  auto series = series_of("no model: running_mean", running_mean);
  series.dash = "6 4";
  panel.series.push_back(std::move(series));
  figure.panels.push_back(std::move(panel));
  return svg::render(figure);
}

std::string gate_figure(const ExperimentFindings& findings) {
  svg::Figure figure{.title = "The gate while training",
                     .subtitle = "γ of every operator: 1 is a rotation, 0 a reflection, ½ singular",
                     .columns = 3,
                     .panel_width = 345,
                     .panel_height = 250};
  for (const auto& column : findings.experiment.columns)
    for (const auto& arm : findings.experiment.arms) {
      svg::Panel panel{.title = column.label + ", from " + arm.label};
      panel.x.label = "step";
      panel.y = {.label = "γ", .from = -0.02, .to = 1.02};
      const auto& cell = findings.cell(column.name, arm.name);
      int operators = 0;
      for (const auto& line : read_metrics(cell.runs.front()))
        if (const auto found = line.find("gamma"); found != line.end())
          operators = static_cast<int>(found->size());
      // Seed by seed: gates end at 0 or 1, and their mean would look like a gate in between.
      for (const auto& run : cell.runs)
        for (int i = 0; i < operators; ++i) {
          // From dark to light with depth; attention and MLP of one block share a shade.
          const auto shade = operators > 2 ? 200 * (i / 2) / (operators / 2) : 0;
          auto series =
              series_of(fmt::format("block {} {}", i / 2, i % 2 == 0 ? "attention" : "MLP"),
                        metric_curve({run}, "gamma", i));
          series.color = i % 2 == 0
                             ? fmt::format("#{:02x}{:02x}{:02x}", shade, 80 + shade / 2, 178)
                             : fmt::format("#{:02x}{:02x}{:02x}", 213, 60 + shade / 2, shade);
          if (i % 2 == 1) series.dash = "5 3";
          panel.series.push_back(std::move(series));
        }
      figure.panels.push_back(std::move(panel));
    }
  return svg::render(figure);
}

std::string norm_figure(const Experiment& experiment, const NormResults& results, int64_t length) {
  svg::Figure figure{
      .title = "Norm preservation", .columns = 2, .panel_width = 510, .panel_height = 280};
  const auto& columns = experiment.columns;
  const auto& arms = experiment.arms;

  // By the training task, with the models next to each other.
  const double apart = 0.72 / static_cast<double>(arms.size());
  const auto by_task = [&](const std::string& key, const std::string& title) {
    svg::Panel panel{.title = title};
    panel.x.label = "task of the model";
    panel.y = {.label = "mean deviation", .scale = svg::Scale::Log};
    for (const auto& column : columns) panel.x.names.push_back(column.label);
    for (std::size_t i = 0; i < arms.size(); ++i) {
      Curve dots;
      for (std::size_t j = 0; j < columns.size(); ++j)
        for (const auto& seed : results.at(columns[j].name).at(arms[i].name))
          dots[static_cast<double>(j) +
               apart * (static_cast<double>(i) + 0.5 - static_cast<double>(arms.size()) / 2)]
              .push_back(seed.at(key).get<double>());
      auto marks = series_of(arms[i].label, dots);
      marks.mark = svg::Mark::Dots;
      marks.width = 4.5;
      panel.series.push_back(std::move(marks));
    }
    return panel;
  };
  auto random = by_task("random", "|‖ŷ‖/‖x‖ − 1| on random unit vectors, as published");
  for (std::size_t j = 0; j < columns.size(); ++j)
    if (columns[j].name == kRolloutColumn)
      random.series.push_back(level("running mean, the right answer on " + columns[j].label,
                                    static_cast<double>(j) - 0.5, static_cast<double>(j) + 0.5,
                                    running_mean_deviation(length)));

  svg::Panel norm{.title = "Roll-out: norm of the prediction", .note = "1: preserved"};
  norm.x = {.label = "steps of prediction fed back", .scale = svg::Scale::Log};
  norm.y = {.label = "mean norm"};
  svg::Panel error{.title = "Roll-out: squared distance to the start"};
  error.x = norm.x;
  error.y = {.label = "MSE", .scale = svg::Scale::Log};
  for (const auto& arm : arms) {
    Curve norms, errors;
    for (const auto& seed : results.at(kRolloutColumn).at(arm.name))
      for (const auto& line : seed.at("rollout")) {
        norms[line.at("step").get<double>()].push_back(line.at("norm").get<double>());
        errors[line.at("step").get<double>()].push_back(line.at("error").get<double>());
      }
    norm.series.push_back(series_of(arm.label, norms));
    error.series.push_back(series_of(arm.label, errors));
  }
  figure.panels = {std::move(random), by_task("validation", "the same on validation data"),
                   std::move(norm), std::move(error)};
  return svg::render(figure);
}

std::string reflection_figure(const Findings& findings) {
  svg::Figure figure{
      .title = "Learning y = −x", .columns = 2, .panel_width = 510, .panel_height = 270};
  const auto add = [&](const std::string& key, const std::string& title, const std::string& label) {
    svg::Panel samples{.title = title + " after training, by train size"};
    samples.x = {.label = "samples", .scale = svg::Scale::Log};
    samples.y.label = label;
    svg::Panel steps{.title = title + " by step, largest train size"};
    steps.x.label = "step";
    steps.y.label = label;
    for (const auto& probe : reflection_probes()) {
      const auto found = findings.reflection.find(probe.name);
      if (found == findings.reflection.end()) continue;
      Curve by_samples, by_step;
      for (const auto& [count, results] : found->second)
        for (const auto& result : results)
          if (!result.at(key).is_null())
            by_samples[static_cast<double>(count)].push_back(result.at(key).get<double>());
      for (const auto& result : found->second.rbegin()->second)
        for (const auto& line : result.at("history"))
          if (!line.at(key).is_null())
            by_step[line.at("step").get<double>()].push_back(line.at(key).get<double>());
      if (by_samples.empty()) continue;
      add_dots(samples, series_of(probe.label, by_samples));
      steps.series.push_back(series_of(probe.label, by_step));
    }
    figure.panels.push_back(std::move(samples));
    figure.panels.push_back(std::move(steps));
  };
  add("cosine", "Alignment", "cos(prediction, −x)");
  add("gamma", "Gate γ", "γ");
  add("beta", "Strength β", "β");
  return svg::render(figure);
}

std::vector<double> gate_under_regulariser(double bias, double weight, int steps) {
  std::vector<double> gammas;
  double b = bias, m = 0, v = 0;
  for (int step = 1; step <= steps; ++step) {
    const auto gamma = 1 / (1 + std::exp(-b));
    gammas.push_back(gamma);
    const auto gradient = weight * 4 * (1 - 2 * gamma) * gamma * (1 - gamma);
    m = 0.9 * m + 0.1 * gradient;
    v = 0.999 * v + 0.001 * gradient * gradient;
    const auto m_hat = m / (1 - std::pow(0.9, step)), v_hat = v / (1 - std::pow(0.999, step));
    b -= 1e-3 * (0.01 * b + m_hat / (std::sqrt(v_hat) + 1e-8));
  }
  gammas.push_back(1 / (1 + std::exp(-b)));
  return gammas;
}

std::string regulariser_figure() {
  svg::Figure figure{
      .title = "The gate loss", .columns = 2, .panel_width = 510, .panel_height = 270};
  svg::Panel shape{.title = "Shape", .note = "4γ(1 − γ) is exactly ‖GᵀG − I‖₂"};
  svg::Panel slope{.title = "Gradient by γ", .note = "zero at ½ for every smooth symmetric shape"};
  svg::Panel force{.title = "Descent on the gate's logit, −dR/db",
                   .note = "away from ½: to the left below it, to the right above"};
  shape.x.label = slope.x.label = force.x.label = "γ";
  shape.y.label = "R(γ)";
  slope.y.label = "dR/dγ";
  force.y.label = "−dR/db";
  struct Shape {
    const char* name;
    double (*value)(double);
    double (*slope)(double);
  };
  const std::vector<Shape> shapes = {
      {"4γ(1 − γ), used here", [](double g) { return 4 * g * (1 - g); },
       [](double g) { return 4 - 8 * g; }},
      {"entropy / ln 2",
       [](double g) { return -(g * std::log(g) + (1 - g) * std::log1p(-g)) / std::log(2.0); },
       [](double g) { return std::log((1 - g) / g) / std::log(2.0); }},
      {"16γ²(1 − γ)²", [](double g) { return 16 * g * g * (1 - g) * (1 - g); },
       [](double g) { return 32 * g * (1 - g) * (1 - 2 * g); }}};
  for (const auto& one : shapes) {
    svg::Series value{.name = one.name}, derivative = value, descent = value;
    for (int i = 1; i < 200; ++i) {
      const auto g = i / 200.0;
      for (auto* series : {&value, &derivative, &descent}) series->x.push_back(g);
      value.y.push_back(one.value(g));
      derivative.y.push_back(one.slope(g));
      descent.y.push_back(-one.slope(g) * g * (1 - g));
    }
    shape.series.push_back(std::move(value));
    slope.series.push_back(std::move(derivative));
    force.series.push_back(std::move(descent));
  }
  slope.y.from = -5;
  slope.y.to = 5;
  force.series.push_back(level("", 0, 1, 0));
  svg::Panel alone{.title = "γ when nothing but the gate loss acts",
                   .note = "λ = 0.5, AdamW 1e-3: no task, no data"};
  alone.x.label = "step";
  alone.y = {.label = "γ", .from = -0.02, .to = 1.02};
  for (const auto bias : {1.5, 1e-6, 0.0, -1e-6, -1.5}) {
    svg::Series series{.name = fmt::format("from logit {}", bias)};
    const auto gammas = gate_under_regulariser(bias, 0.5, 2000);
    for (std::size_t i = 0; i < gammas.size(); i += 20) {
      series.x.push_back(static_cast<double>(i));
      series.y.push_back(gammas[i]);
    }
    alone.series.push_back(std::move(series));
  }
  figure.panels = {std::move(shape), std::move(slope), std::move(force), std::move(alone)};
  return svg::render(figure);
}

}  // namespace geores
