// The figures of the report as SVG texts.
#pragma once

#include <string>

#include "geores/experiments/findings.h"

namespace geores {

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

// Three regularisers of the gate, their gradients, and what the gate loss alone does to γ.
std::string regulariser_figure();

// γ by step when only λ·4γ(1 − γ) moves a bias that starts at `bias`: AdamW, 1e-3.
std::vector<double> gate_under_regulariser(double bias, double weight, int steps);

}  // namespace geores
