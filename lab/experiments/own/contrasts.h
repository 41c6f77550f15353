// Compares an experiment's models with each other, for questions beyond the papers: tables of two
// factors, significance tests, and a figure of all seeds.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/base/pages/table.h"
#include "lab/experiments/findings.h"

namespace geores {

// Two arms on one data set.
struct Contrast {
  std::string column, first, second;  // labels
  double ratio = 1;    // geometric mean of second over that of first; above 1, first is better
  double pairs = 0.5;  // share of pairs of runs in which first is smaller
  Welch test = {};     // of the logarithms, whose spread is similar for values of different size
};

// With two factors: along each row and each way, every arm against the first one there. Otherwise
// every arm against the first. Uses best evaluations; diverged runs are excluded.
std::vector<Contrast> contrasts_of(const ExperimentFindings& findings);

nlohmann::json contrasts_to_json(const std::vector<Contrast>& contrasts);
Table contrast_table(const std::vector<Contrast>& contrasts);

// Rows and ways of one data set. Nothing is in bold: the lowest mean of each row would hide the
// others.
Table two_way_table(const ExperimentFindings& findings, const Column& column);

// A panel for each data set: all seeds by way, with a line through the geometric means of each row;
// or by arm for a single factor.
std::string seeds_figure(const ExperimentFindings& findings);

}  // namespace geores
