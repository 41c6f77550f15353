#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "geores/base/pages/document.h"
#include "geores/base/pages/svg.h"
#include "lab/diagnostics/inspection.h"
#include "lab/diagnostics/inspection_tables.h"

namespace geores {
namespace {

std::vector<double> count_from(double first, std::size_t number) {
  std::vector<double> values(number);
  for (std::size_t i = 0; i < number; ++i) values[i] = first + static_cast<double>(i);
  return values;
}

// Dots without a line: operators and blocks are discrete.
void add_dots(svg::Panel& panel, const std::string& name, const std::vector<double>& values) {
  const std::string color = name == "σ_min" ? "#009e73" : name == "σ_max" ? "#cc79a7" : "#0072b2";
  const auto x = count_from(0, values.size());
  panel.series.push_back(
      {.name = name, .x = x, .y = values, .mark = svg::Mark::Dots, .color = color, .width = 3.0});
}

// Mean over operators as line and dots, between thin lines for the least and the most.
template <class Pick>
void add_spread(svg::Panel& panel, const Inspection& in, const std::string& name, Pick&& pick) {
  std::vector<double> mean, least, most;
  for (const auto& o : in.operators) {
    const std::optional<Spread>& value = pick(o);
    const auto missing = std::nan("");
    mean.push_back(value ? value->mean : missing);
    least.push_back(value ? value->least : missing);
    most.push_back(value ? value->most : missing);
  }
  const auto x = count_from(0, mean.size());
  panel.series.push_back({.name = "least and most of the tokens",
                          .x = x,
                          .y = least,
                          .color = "#999999",
                          .width = 1.0,
                          .dash = "2 2"});
  panel.series.push_back({.name = "least and most of the tokens",
                          .x = x,
                          .y = most,
                          .color = "#999999",
                          .width = 1.0,
                          .dash = "2 2"});
  add_dots(panel, name, mean);
}

void add_level(svg::Panel& panel, double level) {
  panel.series.push_back({.name = "",
                          .x = {panel.x.from, panel.x.to},
                          .y = {level, level},
                          .color = "#d55e00",
                          .width = 1.0,
                          .dash = "6 4"});
}

// For dots at 0 … number − 1 that should not be on the frame.
void add_margin(svg::Axis& axis, std::size_t number) {
  const auto last = static_cast<double>(number) - 1;
  axis.from = -0.03 * std::max(last, 1.0);
  axis.to = last - axis.from;
}

svg::Panel operator_panel(const Inspection& in, const std::string& title, const std::string& note,
                          const std::string& label) {
  svg::Panel panel;
  panel.title = title;
  panel.note = note;
  panel.x.label = "operator, in order of depth";
  panel.y.label = label;
  add_margin(panel.x, in.operators.size());
  return panel;
}

template <class Pick>
bool any(const Inspection& in, Pick&& pick) {
  return std::any_of(in.operators.begin(), in.operators.end(),
                     [&](const OperatorReport& o) { return pick(o).has_value(); });
}

// 1 − σ_min; below 1e-7, which float32 does not show, as 1e-7.
std::vector<double> lost_lengths(const Inspection& in) {
  std::vector<double> lost;
  for (const auto& o : in.operators)
    lost.push_back(o.sigma_min ? std::max(1e-7, 1 - o.sigma_min->mean) : std::nan(""));
  return lost;
}

void add_operator_panels(svg::Figure& figure, const Inspection& in) {
  const auto gamma = [](const OperatorReport& o) { return o.gamma; };
  if (any(in, gamma)) {
    auto panel =
        operator_panel(in, "Gate γ", "1: rotation, 0: reflection, ½ (dashed): singular", "γ");
    panel.y.from = -0.04;
    panel.y.to = 1.04;
    add_level(panel, 0.5);
    add_spread(panel, in, "mean over tokens", gamma);
    figure.panels.push_back(std::move(panel));
  }
  const auto beta = [](const OperatorReport& o) { return o.beta; };
  if (any(in, beta)) {
    auto panel = operator_panel(in, "Strength β", "", "β");
    add_spread(panel, in, "mean over tokens", beta);
    figure.panels.push_back(std::move(panel));
  }
  if (any(in, [](const OperatorReport& o) { return o.sigma_min; })) {
    auto panel = operator_panel(in, "What each operator loses",
                                "1 − σ of the direction that it shortens most", "1 − σ_min");
    panel.y.scale = svg::Scale::Log;
    add_dots(panel, "mean over tokens", lost_lengths(in));
    figure.panels.push_back(std::move(panel));

    auto product = operator_panel(in, "Product of all operators so far",
                                  "spectral norm: how much a state can be amplified", "‖R_l…R_1‖₂");
    product.y.from = 0;
    add_level(product, 1);
    add_spread(product, in, "mean over tokens",
               [](const OperatorReport& o) { return o.composite_norm; });
    figure.panels.push_back(std::move(product));
  }
}

void add_state_panel(svg::Figure& figure, const std::string& title, const std::string& note,
                     const std::string& label, std::vector<double> values) {
  svg::Panel panel;
  panel.title = title;
  panel.note = note;
  panel.x.label = "after block (0: input)";
  panel.y.label = label;
  for (std::size_t block = 0; block < values.size(); ++block)
    panel.x.names.push_back(std::to_string(block));
  add_dots(panel, "mean over tokens", values);
  figure.panels.push_back(std::move(panel));
}

void add_state_panels(svg::Figure& figure, const Inspection& in) {
  std::vector<double> norm = {in.input_norm}, rank = {in.input_rank};
  std::vector<double> cosine = {in.input_cosine.value_or(0)};
  for (const auto& layer : in.layers) {
    norm.push_back(layer.norm_out);
    rank.push_back(layer.effective_rank);
    cosine.push_back(layer.stream_cosine.value_or(0));
  }
  add_state_panel(figure, "Size of the state", "RMS of a token's values", "RMS", norm);
  add_state_panel(figure, "Effective rank of the states",
                  fmt::format("at most {}", std::min(in.length, in.state_width)), "effective rank",
                  rank);
  if (in.input_cosine)
    add_state_panel(figure, "Cosine between streams", "1: all streams carry the same", "cosine",
                    cosine);
}

// Singular values far below the chart are counted in its first bar.
void add_spectrum_panel(svg::Figure& figure, const Inspection& in) {
  constexpr int kBars = 48;
  const auto low = std::log10(
      std::clamp(std::min(in.residual_path.sigma_min(), in.whole_stack.sigma_min()), 1e-4, 0.1));
  const auto high =
      std::log10(std::max({in.residual_path.sigma_max(), in.whole_stack.sigma_max(), 5.0})) + 0.05;
  std::vector<double> edges;
  for (int i = 0; i <= kBars; ++i) edges.push_back(std::pow(10, low + (high - low) * i / kBars));
  svg::Panel panel;
  panel.title = "Singular values of the Jacobians";
  panel.note = fmt::format("share per bar; the first bar holds all below {:.2g}", edges[1]);
  panel.x = {.label = "singular value", .scale = svg::Scale::Log};
  panel.y.label = "share";
  panel.y.from = 0;
  const auto add = [&](const std::string& name, const std::string& color,
                       const JacobianSpectrum& spectrum) {
    std::vector<double> share(kBars, 0.0);
    for (const auto sigma : spectrum.singular_values) {
      const auto bar = sigma > 0 ? (std::log10(sigma) - low) / (high - low) * kBars : 0.0;
      share[static_cast<std::size_t>(std::clamp(bar, 0.0, kBars - 1.0))] +=
          1.0 / static_cast<double>(spectrum.singular_values.size());
    }
    panel.series.push_back(
        {.name = name, .x = edges, .y = share, .mark = svg::Mark::Steps, .color = color});
  };
  add("residual path, sublayers silent", "#e69f00", in.residual_path);
  add("whole stack", "#0072b2", in.whole_stack);
  figure.panels.push_back(std::move(panel));
}

// The state of this model's operators, in one or two sentences.
std::string conclusion(const Inspection& in) {
  std::string result;
  std::size_t gates = 0, rotations = 0, reflections = 0;
  for (const auto& o : in.operators)
    if (o.gamma) ++gates, rotations += o.gamma->mean > 0.9, reflections += o.gamma->mean < 0.1;
  if (gates > 0)
    result = rotations == gates ? fmt::format("All {} gates have closed on the rotation. ", gates)
             : reflections == gates
                 ? fmt::format("All {} gates have closed on the reflection. ", gates)
             : rotations + reflections == gates
                 ? fmt::format("{} gates have closed on the rotation, {} on the reflection. ",
                               rotations, reflections)
                 : fmt::format("{} of {} gates are open, and an open gate shortens a direction. ",
                               gates - rotations - reflections, gates);
  const auto lost = lost_lengths(in);
  double most = -1;
  for (const double value : lost)
    if (value > most) most = value;
  if (most >= 0)
    result +=
        most < 1e-3 ? "No operator shortens any direction by more than a thousandth."
        : most > 0.9
            ? fmt::format("One operator loses a direction: {:.2g} of its length.", most)
            : fmt::format("The worst operator shortens a direction by {:.2g} of its length.", most);
  return result;
}

}  // namespace

std::string to_page(const Inspection& inspection, const std::string& title) {
  svg::Figure figure;
  figure.columns = 2;
  figure.panel_width = 510;
  figure.panel_height = 270;
  add_operator_panels(figure, inspection);
  add_state_panels(figure, inspection);
  add_spectrum_panel(figure, inspection);

  Document page(title);
  if (const auto told = conclusion(inspection); !told.empty()) page.conclusion(told);
  page.text(headline(inspection));
  for (const auto& warning : inspection.warnings) page.warning(warning);
  page.figure("inspection", figure, "");
  for (auto& table : tables_of(inspection)) page.table(std::move(table));
  return page.to_html();
}

}  // namespace geores
