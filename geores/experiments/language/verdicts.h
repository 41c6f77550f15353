// Claims of the papers, judged: by losses of two arms (Welch's t over seeds), and by what was measured
// inside the models. Open: p >= 0.05, or too few seeds to know.
#pragma once

#include <string>
#include <vector>

#include "geores/experiments/language/reproduce_language.h"

namespace geores {

struct Verdict {
  std::string claim, numbers, test;
  std::string control;  // what decides it
  std::string verdict;  // holds, reversed or open
};

std::vector<Verdict> language_verdicts(const LanguageFindings& findings);

// MGT's S = L(+mHC) + L(+DDL) − L(base) − L(MGT) of each seed that all four have.
std::vector<double> synergy(const ExperimentFindings& ablation, const std::string& column,
                            const std::string& base);

// One number of every run of a cell, by a path into what was measured on it.
std::vector<double> over_runs(const LanguageFindings& findings, const CellFindings& cell,
                              const std::string& pointer);

// Student's t of a mean against a number, two-sided; NaN with less than two values.
struct MeanTest {
  double t, p;
};
MeanTest test_of_mean(const Sample& sample, double against);

}  // namespace geores
