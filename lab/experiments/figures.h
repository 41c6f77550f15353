// The figures of the report as SVG texts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "geores/base/pages/svg.h"
#include "lab/experiments/findings.h"

namespace geores {

// The curve of runs with several seeds: the mean with a band of one standard deviation, at the mean
// of their x (the step itself, or seconds).
struct PositionedValue {
  double x, y;
};
svg::Series mean_curve(const std::string& name,
                       const std::map<int64_t, std::vector<PositionedValue>>& by_step);

// Validation loss and gradient norm by step, for each data set; the best trivial predictor dashed.
std::string training_figure(const ExperimentFindings& findings);

// Loss by angle.
std::string theta_figure(const ExperimentFindings& findings);

// γ of every operator by step, for each start of the gate.
std::string gate_figure(const ExperimentFindings& findings);

// Deviation in the published form and on data; norm and error along the roll-out.
std::string norm_figure(const Experiment& experiment, const NormResults& norms, int64_t length);

// Alignment, γ and β by number of samples and by step.
std::string reflection_figure(const Findings& findings);

// Three regularisers of the gate, their gradients, and the trajectory of γ under the gate loss
// alone.
std::string regulariser_figure();

// γ by step when only λ·4γ(1 − γ) moves a bias that starts at `bias`: AdamW, 1e-3.
std::vector<double> gate_under_regulariser(double bias, double weight, int steps);

}  // namespace geores
