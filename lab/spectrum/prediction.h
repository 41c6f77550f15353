// Everything that `geores spectrum` says about one chain of layers: the right theory, the equation
// as printed, Monte Carlo, a measured model, and how far they are apart.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "geores/base/pages/svg.h"
#include "geores/spectral/density.h"
#include "geores/spectral/monte_carlo.h"

namespace geores::spectral {

struct PredictionOptions {
  double eta = 0.02;       // blur of all curves
  double near_zero = 0.1;  // "fraction near zero" counts the singular values below this
  bool printed = true;     // also solve the equation as printed
  int threads = 0;         // 0: one per core
  std::optional<MonteCarlo> monte_carlo;
  std::vector<double> measured;  // singular values of a model's Jacobian; may be empty
};

// The same figures for theory, Monte Carlo and a measured model.
struct Summary {
  double near_zero = 0;      // fraction of singular values below options.near_zero
  double low = 0, high = 0;  // 5 % and 95 % quantiles; the theory's are 0 when below 1e-4
  Moments moments;           // E s², E s⁴
  double condition() const { return high / low; }
};

struct Comparison {  // a sample compared with the theory
  Sample sample;
  Curve curve;  // the sample blurred by the same eta, on the theory's grid
  Summary summary;
  double distance = 0;  // L1 between theory and curve
};

struct Prediction {
  PredictionOptions options;
  double edge = 0;  // end of the support
  Curve theory;
  double mass = 0;  // of the theory's curve on its grid; the blur puts some of it beyond
  Summary summary;
  Moments exact;  // reference for summary.moments

  Curve printed;  // empty when not asked for or not solvable
  std::string printed_failure;
  double printed_mass = 0;
  double printed_distance = 0;  // L1 to Monte Carlo where there is one, to the theory otherwise

  std::optional<Comparison> monte_carlo, measured;
};

Prediction predict(const Chain& chain, const PredictionOptions& options);

// The sample (filled, with the same blur), theory and printed curve. The vertical axis is cut above
// the bulk, so that a spike at zero does not flatten it; a note gives the spike's weight.
svg::Panel draw(const Prediction& prediction, const std::string& title);

}  // namespace geores::spectral
