// The results of a reproduction, read back from its folder: the data of the report.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lab/experiments/norms.h"
#include "lab/experiments/reflection.h"
#include "lab/experiments/runner.h"

namespace geores {

// One model on one data set, all seeds.
struct CellFindings {
  std::vector<double> best = {};    // best evaluation on random batches, as in the paper
  std::vector<double> exact;        // the same weights over the whole validation set
  std::vector<int64_t> seeds = {};  // of these numbers, in the same order
  std::vector<std::string> runs;
  int diverged = 0;  // runs that stopped at a non-finite loss; not counted above
  int64_t parameters = 0;
  double seconds = 0;  // of all seeds together
};

struct ExperimentFindings {
  Experiment experiment;
  std::map<std::string, std::map<std::string, CellFindings>> cells;  // by column, arm
  std::map<std::string, std::vector<Baseline>> baselines;            // by column

  const CellFindings& cell(const std::string& column, const std::string& arm) const {
    return cells.at(column).at(arm);
  }
};

// A claim of the paper, judged by its published numbers and by ours.
struct Judgement {
  Claim claim;
  double published_ratio, measured_ratio;  // worse / better; NaN where unknown
  Welch published, measured;
  std::string verdict;  // "holds", "reversed" or "open"
};

// Column → arm → one result of measure_norms per seed; roll-outs in one column.
using NormResults = std::map<std::string, std::map<std::string, std::vector<nlohmann::json>>>;

struct Findings {
  Scale scale;
  Hardware hardware;
  std::string folder;
  std::vector<ExperimentFindings> experiments = {};
  // probe name → number of samples → one result of run_reflection per seed
  std::map<std::string, std::map<int64_t, std::vector<nlohmann::json>>> reflection = {};
  NormResults norms = {};      // of the main table
  NormResults own_norms = {};  // of the experiment kOwnNorms
  int64_t norm_length = 0;     // of the random sequences
  double train_seconds = 0;    // summed over all runs

  const ExperimentFindings* find(const std::string& experiment) const;
  std::vector<Judgement> judgements() const;
  nlohmann::json to_json() const;
};

// Significant at 5 %, two-sided, or open.
std::string verdict(double ratio, const Welch& test);

// By losses on random batches, or over the whole validation set.
enum class JudgedBy { random_batches, whole_set };
Judgement judge(const Claim& claim, const ExperimentFindings& findings, JudgedBy by);

nlohmann::json to_json(const ExperimentFindings& findings);
nlohmann::json to_json(const Judgement& judgement);

// Reads the runs of one experiment in `folder`/runs. They must be finished; others are skipped.
enum class Unfinished { refused, left_out };
ExperimentFindings read_findings(const Experiment& experiment, const Scale& scale,
                                 const Hardware& hardware, const std::string& folder,
                                 Unfinished unfinished = Unfinished::refused);

// The same with trivial baselines.
ExperimentFindings read_findings(const Experiment& experiment, const Scale& scale,
                                 const Hardware& hardware, const std::string& folder,
                                 DatasetShelf& shelf);

}  // namespace geores
