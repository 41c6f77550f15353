// Selects learning rates before models are compared: every arm is trained with each rate and one
// seed, and compared at its best one. A single rate for all arms would favour the arm that it fits.
#pragma once

#include "lab/experiments/findings.h"

namespace geores {

// Every arm with every rate: arm "mgt" becomes "mgt@0.001", ....
Experiment sweep_of(const Experiment& experiment);
std::string swept_name(const std::string& arm, double rate);

// One seed suffices to select a rate: the first of the paper's, independent of the selected seeds.
Scale sweep_scale(const Scale& scale);

// Every arm at its best rate on each column: the lowest exact validation loss of the sweep's
// finished runs; without one, or if all diverged, the configured rate.
Experiment settled(const Experiment& experiment, const ExperimentFindings& sweep);

// Every arm at its first rate: as long to train as at its best one.
Experiment at_first_rate(const Experiment& experiment);

// The rate of an arm of a settled experiment.
double rate_of(const Arm& arm, const std::string& column);

}  // namespace geores
