#include "lab/spectrum/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "geores/base/error.h"
#include "geores/spectral/chain_equation.h"
#include "geores/spectral/printed_equation.h"
#include "lab/spectrum/threads.h"

namespace geores::spectral {
namespace {

Comparison compare(Sample sample, const Prediction& prediction) {
  const auto& options = prediction.options;
  Comparison result;
  result.curve = invert(empirical_resolvent(sample), prediction.theory.s, options.eta,
                        on_threads(options.threads));
  result.summary = {sample.fraction_below(options.near_zero), sample.quantile(0.05),
                    sample.quantile(0.95), sample.moments()};
  result.distance = l1_distance(prediction.theory, result.curve);
  result.sample = std::move(sample);
  return result;
}

// The sample with the theory's blur, as a filled area: the difference from the theory's line is the
// L1 distance. (A raw histogram would differ by the blur's tails as well.)
svg::Series filled(const Curve& curve, const std::string& name, const std::string& color) {
  svg::Series series{.name = name, .x = curve.s, .y = {}, .mark = svg::Mark::Steps, .color = color};
  for (std::size_t i = 1; i < curve.s.size(); ++i) {
    series.y.push_back((curve.rho[i - 1] + curve.rho[i]) / 2);
  }
  return series;
}

}  // namespace

Prediction predict(const Chain& chain, const PredictionOptions& options) {
  require(std::isfinite(options.near_zero) && options.near_zero > 0, "spectral",
          "near zero must be finite and > 0, got {}", options.near_zero);
  require(options.threads >= 0, "spectral", "threads must be >= 0, got {}", options.threads);
  Prediction result;
  result.options = options;
  const auto theory = chain_resolvent(chain);
  const auto resolvent = theory();
  result.edge = support_edge(resolvent);
  result.theory = invert(theory, spectrum_grid(result.edge, options.eta), options.eta,
                         on_threads(options.threads));
  result.mass = mass(result.theory);
  result.summary = {probability_below(resolvent, options.near_zero), quantile(resolvent, 0.05),
                    quantile(resolvent, 0.95), contour_moments(resolvent, 1.25 * result.edge)};
  result.exact = exact_moments(chain);
  if (options.monte_carlo) {
    result.monte_carlo = compare(
        sample_singular_values(chain, *options.monte_carlo, on_threads(options.threads)), result);
  }
  if (!options.measured.empty()) result.measured = compare(sample_from(options.measured), result);
  if (options.printed) {
    try {
      result.printed = invert(printed_resolvent(chain), result.theory.s, options.eta,
                              on_threads(options.threads));
      result.printed_mass = mass(result.printed);
      result.printed_distance = l1_distance(
          result.printed, result.monte_carlo ? result.monte_carlo->curve : result.theory);
    } catch (const Error& error) {
      result.printed_failure = error.what();
    }
  }
  return result;
}

svg::Panel draw(const Prediction& prediction, const std::string& title) {
  const auto& options = prediction.options;
  const auto& theory = prediction.theory;
  svg::Panel panel;
  panel.title = title;
  panel.x = {.label = "singular value s", .from = 0, .to = 1.1 * prediction.edge};
  panel.y = {.label = "density", .from = 0};
  double bulk = 0;
  for (std::size_t i = 0; i < theory.s.size(); ++i) {
    if (theory.s[i] >= options.near_zero + 3 * options.eta) bulk = std::max(bulk, theory.rho[i]);
  }
  panel.y.to = 1.2 * std::max(bulk, 0.1);
  if (prediction.monte_carlo) {
    panel.series.push_back(filled(prediction.monte_carlo->curve, "Monte Carlo", "#8c8c8c"));
  }
  if (prediction.measured) {
    panel.series.push_back(filled(prediction.measured->curve, "measured on the model", "#009e73"));
  }
  if (!prediction.printed.s.empty()) {
    panel.series.push_back({.name = "theory as printed",
                            .x = prediction.printed.s,
                            .y = prediction.printed.rho,
                            .color = "#d55e00",
                            .width = 1.5,
                            .dash = "5 3"});
  }
  panel.series.push_back({.name = "theory, corrected",
                          .x = theory.s,
                          .y = theory.rho,
                          .color = "#0072b2",
                          .width = 2});
  panel.note =
      fmt::format("{:.1f} % below {:g}", 100 * prediction.summary.near_zero, options.near_zero);
  if (prediction.monte_carlo) {
    panel.note += fmt::format(" · L1 theory {:.4f}", prediction.monte_carlo->distance);
  }
  if (!prediction.printed.s.empty()) {
    panel.note += fmt::format(" · as printed {:.3f}", prediction.printed_distance);
  } else if (!prediction.printed_failure.empty()) {
    panel.note += " · as printed: no solution";
  }
  return panel;
}

}  // namespace geores::spectral
