// Comparisons of an experiment's models with each other, for questions that go past the papers: tables
// of two factors, tests of significance, and a picture of all seeds.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/base/pages/table.h"
#include "geores/experiments/findings.h"

namespace geores {

// Two arms on one data set.
struct Contrast {
  std::string column, first, second;  // labels
  double ratio = 1;    // geometric mean of second over that of first: > 1, first is better
  double pairs = 0.5;  // share of pairs of runs in which first is the smaller
  Welch test = {};     // of the logarithms, whose spread is alike where values are not
};

// Where two things vary: along each row and along each way, every arm against the first one there.
// Elsewhere every arm against the first. Best evaluations; diverged runs are not counted.
std::vector<Contrast> contrasts_of(const ExperimentFindings& findings);

nlohmann::json contrasts_to_json(const std::vector<Contrast>& contrasts);
Table contrast_table(const std::vector<Contrast>& contrasts);

// Rows and ways of one data set; the lowest mean of each row in bold would hide the others, so none is.
Table two_way_table(const ExperimentFindings& findings, const Column& column);

// A panel for each data set: all seeds by way, a line through the geometric means of each row; or by
// arm, where only one thing varies.
std::string seeds_figure(const ExperimentFindings& findings);

}  // namespace geores
