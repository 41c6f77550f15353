// Verdicts on the papers' claims, from the losses of two arms (Welch's t over seeds) and from
// measurements inside the models. Open: p >= 0.05, or too few seeds.
#pragma once

#include <string>
#include <vector>

#include "lab/experiments/language/reproduce_language.h"

namespace geores {

struct Verdict {
  std::string claim, numbers, test;
  std::string control;  // the control that decides it
  std::string verdict;  // holds, reversed or open
};

std::vector<Verdict> language_verdicts(const LanguageFindings& findings);

// MGT's S = L(+mHC) + L(+DDL) − L(base) − L(MGT) of each seed that all four have.
std::vector<double> synergy(const ExperimentFindings& ablation, const std::string& column,
                            const std::string& base);

// One number of every run of a cell, by its path in the measurements.
std::vector<double> over_runs(const LanguageFindings& findings, const CellFindings& cell,
                              const std::string& pointer);

// Student's t of a mean against a number, two-sided; NaN with fewer than two values.
struct MeanTest {
  double t, p;
};
MeanTest test_of_mean(const Sample& sample, double against);

}  // namespace geores
