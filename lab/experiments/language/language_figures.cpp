#include "lab/experiments/language/language_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

#include "geores/base/file.h"
#include "geores/train/run/finished_run.h"
#include "lab/experiments/figures.h"
#include "lab/experiments/language/language_tables.h"
#include "lab/experiments/language/learning.h"

namespace geores {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

svg::Series by_number(const std::string& name, const std::vector<double>& values) {
  svg::Series series{.name = name};
  for (std::size_t i = 0; i < values.size(); ++i) {
    series.x.push_back(static_cast<double>(i));
    series.y.push_back(values[i]);
  }
  return series;
}

}  // namespace

std::vector<json> read_diagnostics(const std::string& run_folder) {
  const auto path = fs::path(run_folder) / "diagnostics.jsonl";
  std::vector<json> lines;
  if (!fs::exists(path)) return lines;
  std::istringstream text(read_text_file(path));
  for (std::string line; std::getline(text, line);)
    lines.push_back(parse_json(line, path.string()));
  return lines;
}

std::vector<std::size_t> quarters(std::size_t count) {
  std::vector<std::size_t> indices;
  for (const auto share : {0.0, 1.0 / 3, 2.0 / 3, 1.0}) {
    if (count == 0) break;
    const auto index =
        static_cast<std::size_t>(std::lround(share * static_cast<double>(count - 1)));
    if (indices.empty() || indices.back() != index) indices.push_back(index);
  }
  return indices;
}

std::vector<std::size_t> quarters_of_training(const std::vector<json>& lines) {
  std::vector<std::size_t> indices;
  for (const auto share : {0.0, 0.25, 0.5, 1.0}) {
    if (lines.empty()) break;
    const auto wanted = share * lines.back().at("step").get<double>();
    const auto nearest = std::ranges::min_element(lines, {}, [wanted](const json& line) {
      return std::abs(line.at("step").get<double>() - wanted);
    });
    const auto index = static_cast<std::size_t>(nearest - lines.begin());
    if (indices.empty() || indices.back() != index) indices.push_back(index);
  }
  return indices;
}

namespace {

enum class Learned { validation_by_tokens, validation_by_seconds, train_by_tokens };

// By tokens, or by the seconds of the preceding line; without the untrained model's loss, which
// would take most of the axis. Losses of training steps are noisy: they are means over a fiftieth
// of the training, from the first evaluation on.
svg::Series loss_curve(const CellFindings& cell, const RunSize& size, const std::string& name,
                       Learned what) {
  const auto window = std::max<int64_t>(1, size.steps / 50);
  const auto millions = [&](double steps) {
    return steps * static_cast<double>(size.tokens_a_step) / 1e6;
  };
  std::map<int64_t, std::vector<PositionedValue>> by_step;
  for (const auto& run : cell.runs) {
    double seconds = 0;
    bool evaluated = false;
    std::map<int64_t, std::vector<double>> windows;
    for (const auto& line : read_metrics(run)) {
      const auto step = line["step"].get<int64_t>();
      if (line.contains("seconds") && line["seconds"].is_number()) seconds = line["seconds"];
      if (evaluated && line.contains("loss") && line["loss"].is_number())
        windows[step / window].push_back(line["loss"].get<double>());
      if (step == 0 || !line.contains("validation") || !line["validation"].is_number()) continue;
      evaluated = true;
      if (what != Learned::train_by_tokens)
        by_step[step].push_back(
            {what == Learned::validation_by_seconds ? seconds : millions(static_cast<double>(step)),
             line["validation"].get<double>()});
    }
    if (what == Learned::train_by_tokens)
      for (const auto& [number, losses] : windows)
        by_step[number].push_back(
            {millions((static_cast<double>(number) + 0.5) * static_cast<double>(window)),
             sample_of(losses).mean});
  }
  return mean_curve(name, by_step);
}

}  // namespace

std::string loss_figure(const ExperimentFindings& findings) {
  svg::Figure figure{
      .title = findings.experiment.title, .columns = 3, .panel_width = 340, .panel_height = 260};
  for (const auto& column : findings.experiment.columns)
    for (const auto what : {Learned::validation_by_tokens, Learned::validation_by_seconds,
                            Learned::train_by_tokens}) {
      svg::Panel panel{.title = column.label};
      panel.x.label = what == Learned::validation_by_seconds ? "seconds" : "million tokens";
      panel.y.label = what == Learned::train_by_tokens ? "train loss" : "validation loss";
      for (const auto& arm : findings.experiment.arms) {
        const auto& cell = findings.cell(column.name, arm.name);
        if (cell.runs.empty()) continue;
        const auto size = size_of_runs(findings.experiment, column.name, arm.name);
        if (auto series = loss_curve(cell, size, arm.label, what); !series.x.empty())
          panel.series.push_back(std::move(series));
      }
      if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
    }
  return figure.panels.empty() ? "" : svg::render(figure);
}

namespace {

std::string seed_in(const std::string& run_folder) {
  return run_folder.substr(run_folder.rfind("-seed") + 1);
}

// A cell's losses minus those of another cell's run with the same seed, which reads the same
// batches.
svg::Series difference_curve(const CellFindings& cell, const CellFindings& base,
                             const RunSize& size, const std::string& name) {
  std::map<int64_t, std::vector<PositionedValue>> by_step;
  for (const auto& run : cell.runs)
    for (const auto& other : base.runs) {
      if (seed_in(run) != seed_in(other)) continue;
      std::map<double, double> base_losses;
      for (const auto& [step, loss] : validation_losses(other)) base_losses[step] = loss;
      for (const auto& [step, loss] : validation_losses(run))
        if (step > 0 && base_losses.contains(step))
          by_step[static_cast<int64_t>(step)].push_back(
              {step * static_cast<double>(size.tokens_a_step) / 1e6, loss - base_losses[step]});
    }
  return mean_curve(name, by_step);
}

}  // namespace

std::string difference_figure(const ExperimentFindings& findings) {
  const auto& experiment = findings.experiment;
  const auto has_runs = [&](const Arm& arm) {
    return std::ranges::any_of(experiment.columns, [&](const Column& column) {
      return !findings.cell(column.name, arm.name).runs.empty();
    });
  };
  // The first arm with runs.
  const auto found = std::ranges::find_if(experiment.arms, has_runs);
  if (found == experiment.arms.end()) return "";
  const auto& first = *found;
  svg::Figure figure{.title = fmt::format("Validation loss minus that of {}", first.label),
                     .columns = 2,
                     .panel_width = 460,
                     .panel_height = 300};
  for (const auto& column : experiment.columns) {
    svg::Panel panel{.title = column.label};
    panel.x.label = "million tokens";
    panel.y.label = "nats";
    const auto& base = findings.cell(column.name, first.name);
    for (const auto& arm : experiment.arms) {
      if (arm.name == first.name) continue;
      const auto size = size_of_runs(experiment, column.name, arm.name);
      if (auto series =
              difference_curve(findings.cell(column.name, arm.name), base, size, arm.label);
          !series.x.empty())
        panel.series.push_back(std::move(series));
    }
    if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
  }
  return figure.panels.empty() ? "" : svg::render(figure);
}

std::string gradient_figure(const ExperimentFindings& findings) {
  constexpr int64_t window = 100;  // steps
  svg::Figure figure{.title = "Norms of gradients", .columns = 2, .panel_width = 510};
  for (const auto& column : findings.experiment.columns)
    for (const auto* what : {"median", "largest"}) {
      svg::Panel panel{.title = column.label};
      panel.x.label = "step";
      panel.y = {.label = fmt::format("norm, {} of {} steps", what, window),
                 .scale = svg::Scale::Log};
      for (const auto& arm : findings.experiment.arms) {
        std::map<int64_t, std::vector<PositionedValue>> by_window;
        for (const auto& run : findings.cell(column.name, arm.name).runs) {
          std::map<int64_t, std::vector<double>> norms;
          for (const auto& line : read_metrics(run))
            if (line.contains("grad_norm") && line["grad_norm"].is_number())
              norms[line["step"].get<int64_t>() / window].push_back(line["grad_norm"]);
          for (auto& [number, values] : norms) {
            std::ranges::sort(values);
            by_window[number].push_back(
                {(static_cast<double>(number) + 0.5) * window,
                 what == std::string("median") ? values[values.size() / 2] : values.back()});
          }
        }
        if (!by_window.empty()) panel.series.push_back(mean_curve(arm.label, by_window));
      }
      if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
    }
  return figure.panels.empty() ? "" : svg::render(figure);
}

std::string rank_figure(const LanguageFindings& all, const ExperimentFindings& findings) {
  svg::Figure figure{
      .title = "Rank by depth", .columns = 2, .panel_width = 510, .panel_height = 270};
  for (const auto& column : findings.experiment.columns) {
    svg::Panel panel{.title = column.label};
    panel.x.label = "blocks";
    panel.y = {.label = "effective rank / min(T, D)", .from = 0, .to = 1};
    for (const auto& arm : findings.experiment.arms) {
      const auto* one = first_measured(all, findings.cell(column.name, arm.name));
      if (one == nullptr || !one->contains("end") || !one->at("end").contains("relative_rank"))
        continue;
      panel.series.push_back(by_number(
          arm.label, one->at("end").at("relative_rank").at("plain").get<std::vector<double>>()));
    }
    if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
  }
  return figure.panels.empty() ? "" : svg::render(figure);
}

namespace {

// f(column, arm, lines) with the diagnostics of the first run of each cell that has any.
template <class F>
void for_each_diagnosed(const ExperimentFindings& findings, F&& f) {
  for (const auto& column : findings.experiment.columns)
    for (const auto& arm : findings.experiment.arms) {
      const auto& runs = findings.cell(column.name, arm.name).runs;
      if (runs.empty()) continue;
      if (const auto lines = read_diagnostics(runs.front()); !lines.empty()) f(column, arm, lines);
    }
}

std::string drawn(const svg::Figure& figure) {
  return figure.panels.empty() ? "" : svg::render(figure);
}

}  // namespace

std::string over_training_figure(const ExperimentFindings& findings) {
  svg::Figure figure{.title = "During training", .columns = 2, .panel_width = 510};
  const auto add = [&](const char* title, const json::json_pointer& known, auto&& value) {
    std::map<std::string, svg::Panel> panels;  // by column
    for_each_diagnosed(findings,
                       [&](const Column& column, const Arm& arm, const std::vector<json>& lines) {
                         svg::Series series{.name = arm.label};
                         for (const auto& line : lines) {
                           if (!line.contains(known)) continue;
                           series.x.push_back(line.at("step").get<double>());
                           series.y.push_back(value(line.at(known)));
                         }
                         if (!series.x.empty())
                           panels[column.name].series.push_back(std::move(series));
                       });
    for (const auto& column : findings.experiment.columns)
      if (const auto found = panels.find(column.name); found != panels.end()) {
        found->second.title = column.label;
        found->second.x.label = "step";
        found->second.y.label = title;
        figure.panels.push_back(std::move(found->second));
      }
  };
  add("row maximum, median", "/mixers/row_maxima/1"_json_pointer,
      [](const json& value) { return value.get<double>(); });
  add("second singular value of the product", "/mixers/layers"_json_pointer,
      [](const json& layers) {
        return layers.back().at("composite_second").at("mean").get<double>();
      });
  add("cosine of streams, mean over mixers", "/mixers/layers"_json_pointer, [](const json& layers) {
    std::vector<double> cosines;
    for (const auto& layer : layers) cosines.push_back(layer.at("cosine").get<double>());
    return sample_of(cosines).mean;
  });
  add("rank after the last block", "/relative_rank/plain"_json_pointer,
      [](const json& ranks) { return ranks.back().get<double>(); });
  return drawn(figure);
}

std::string beta_figure(const ExperimentFindings& findings) {
  svg::Figure figure{
      .title = "β by operator", .columns = 2, .panel_width = 510, .panel_height = 270};
  const std::vector<std::string> shades = {"#c6dbef", "#6baed6", "#2171b5", "#08306b"};
  for_each_diagnosed(findings, [&](const Column& column, const Arm& arm,
                                   const std::vector<json>& lines) {
    svg::Panel panel{.title = arm.label + ", " + column.label};
    panel.x.label = "operator";
    panel.y.label = "mean of β";
    const auto indices = quarters_of_training(lines);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      std::vector<double> means;
      for (const auto& beta : lines[indices[i]].at("beta")) means.push_back(beta.at("mean"));
      auto series = by_number(fmt::format("step {}", lines[indices[i]].at("step").dump()), means);
      series.color = shades[i];
      panel.series.push_back(std::move(series));
    }
    figure.panels.push_back(std::move(panel));
  });
  return drawn(figure);
}

std::string beta_heat_figure(const ExperimentFindings& findings) {
  svg::Figure figure{.title = "β by operator and step",
                     .subtitle = "blue: below 0, red: above",
                     .columns = 2,
                     .panel_width = 510,
                     .panel_height = 270};
  for_each_diagnosed(findings,
                     [&](const Column& column, const Arm& arm, const std::vector<json>& lines) {
                       svg::Panel panel{.title = arm.label + ", " + column.label};
                       panel.x.label = "step";
                       panel.y.label = "operator";
                       for (const auto& line : lines)
                         panel.x.names.push_back(line.at("step").dump());
                       for (size_t l = 0; l < lines.front().at("beta").size(); ++l) {
                         auto& row = panel.heat.rows.emplace_back();
                         for (const auto& line : lines)
                           row.push_back(line.at("beta").at(l).at("mean"));
                       }
                       figure.panels.push_back(std::move(panel));
                     });
  return drawn(figure);
}

std::string beta_quantile_figure(const ExperimentFindings& findings) {
  svg::Figure figure{.title = "β of all tokens at four operators",
                     .subtitle = "band: 5 to 95 %",
                     .columns = 4,
                     .panel_width = 255,
                     .panel_height = 230};
  for_each_diagnosed(findings, [&](const Column& column, const Arm& arm,
                                   const std::vector<json>& lines) {
    for (const auto l : quarters(lines.front().at("beta").size())) {
      svg::Panel panel{.title = fmt::format("operator {}, {}", l, column.label), .note = arm.label};
      panel.x.label = "step";
      panel.y = {.label = "β", .from = -1.05, .to = 1.05};  // a tanh
      svg::Series median{.name = "median", .color = "#2171b5"},
          outer{.name = "1 and 99 %", .color = "#6baed6", .width = 1, .dash = "4 3"};
      auto least = outer, most = outer;
      for (const auto& line : lines) {
        const auto step = line.at("step").get<double>();
        const auto shares = line.at("beta").at(l).at("quantiles").get<std::vector<double>>();
        for (auto* series : {&median, &least, &most}) series->x.push_back(step);
        least.y.push_back(shares.at(0));
        median.low.push_back(shares.at(1));
        median.y.push_back(shares.at(2));
        median.high.push_back(shares.at(3));
        most.y.push_back(shares.at(4));
      }
      panel.series = {least, most, median};
      figure.panels.push_back(std::move(panel));
    }
  });
  return drawn(figure);
}

std::string heat_figure(const json& mixers, const std::string& title) {
  const auto n = mixers.at("streams").get<size_t>();
  const auto cells = 34.0 * static_cast<double>(n + 1);
  svg::Figure figure{.title = title,
                     .subtitle = "in grey: sums of rows and columns",
                     .columns = 5,
                     .panel_width = 60 + cells,
                     .panel_height = 70 + cells};
  const auto add = [&](const std::string& name, const json& values) {
    svg::Panel panel{.title = name};
    panel.x.label = "from";
    panel.y.label = "to";
    for (size_t i = n; i-- > 0;) {  // the first row on top
      panel.y.names.push_back(std::to_string(i));
      auto& row = panel.heat.rows.emplace_back();
      for (size_t j = 0; j < n; ++j) row.push_back(values.at(i * n + j));
    }
    for (size_t j = 0; j < n; ++j) panel.x.names.push_back(std::to_string(j));
    panel.heat.digits = 2;
    panel.heat.sums = true;
    figure.panels.push_back(std::move(panel));
  };
  const auto& layers = mixers.at("layers");
  for (const auto l : quarters(layers.size()))
    add(layers.at(l).at("name").get<std::string>(), layers.at(l).at("mean"));
  add("composite", layers.back().at("composite_mean"));
  return svg::render(figure);
}

std::string mixer_figure(const LanguageFindings& all, const ExperimentFindings& findings) {
  svg::Figure figure{.title = "Products of mixers by depth",
                     .columns = 2,
                     .panel_width = 510,
                     .panel_height = 270};
  const auto& column = findings.experiment.columns.front().name;
  const auto layers_of = [&](const std::string& arm) -> const json* {
    const auto* one = first_measured(all, findings.cell(column, arm));
    if (one == nullptr || !one->contains("end") || !one->at("end").contains("mixers"))
      return nullptr;
    return &one->at("end").at("mixers").at("layers");
  };
  // Values of each layer, minus those of the same layer of `without`, if given.
  const auto add = [&](const char* title, auto&& value, const json* without = nullptr) {
    svg::Panel panel{.title = title};
    panel.x.label = "last mixer of the product, counted from 0";
    for (const auto& arm : findings.experiment.arms) {
      const auto* layers = layers_of(arm.name);
      if (layers == nullptr || layers == without) continue;
      std::vector<double> values;
      for (size_t i = 0; i < layers->size(); ++i)
        values.push_back(value(layers->at(i)) - (without ? value(without->at(i)) : 0));
      panel.series.push_back(by_number(arm.label, values));
    }
    if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
  };
  const auto mean = [](const char* key) {
    return [key](const json& layer) { return layer.at(key).at("mean").template get<double>(); };
  };
  const auto plain = [](const char* key) {
    return [key](const json& layer) { return layer.at(key).template get<double>(); };
  };
  const auto most = [](const char* key) {
    return [key](const json& layer) { return layer.at(key).back().template get<double>(); };
  };
  add("largest singular value", mean("composite_norm"));
  add("second singular value", mean("composite_second"));
  add("smallest singular value", mean("composite_least"));
  add("largest column sum", most("composite_column_sums"));
  add("largest row sum", most("composite_row_sums"));
  add("largest column sum of one mixer", most("column_sums"));
  add("Amax gain of one mixer, forward", plain("forward_gain"));
  add("Amax gain, forward", plain("composite_forward_gain"));
  add("Amax gain, backward", plain("composite_backward_gain"));
  add("cosine of streams after each mixer", plain("cosine"));
  for (const auto& arm : findings.experiment.arms)
    if (const auto* identity = layers_of(arm.name); arm.name == "identity" && identity != nullptr)
      add("cosine of streams, less the fixed identity's", plain("cosine"), identity);
  return figure.panels.empty() ? "" : svg::render(figure);
}

std::string entry_figure(const LanguageFindings& all, const ExperimentFindings& findings) {
  svg::Figure figure{
      .title = "Entries of mixers", .columns = 3, .panel_width = 340, .panel_height = 220};
  const auto& column = findings.experiment.columns.front().name;
  const auto width = (kMostEntry - kLeastEntry) / kEntryBins;
  for (const auto& arm : findings.experiment.arms) {
    const auto* one = first_measured(all, findings.cell(column, arm.name));
    if (one == nullptr || !one->contains("end") || !one->at("end").contains("mixers")) continue;
    const char* const names[] = {"first", "second", "last"};
    std::size_t number = 0;
    for (const auto& third : one->at("end").at("mixers").at("thirds")) {
      svg::Panel panel{.title = fmt::format("{}, {} third", arm.label,
                                            names[std::min<std::size_t>(number++, 2)])};
      panel.x.label = "entry";
      panel.y.label = "share";
      svg::Series series{.mark = svg::Mark::Steps};
      double total = 0;
      for (const auto& count : third.at("entries")) total += count.get<double>();
      for (int bin = 0; bin <= kEntryBins; ++bin) series.x.push_back(kLeastEntry + bin * width);
      for (const auto& count : third.at("entries")) series.y.push_back(count.get<double>() / total);
      panel.series.push_back(std::move(series));
      figure.panels.push_back(std::move(panel));
    }
  }
  return figure.panels.empty() ? "" : svg::render(figure);
}

}  // namespace geores
