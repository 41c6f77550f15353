// The papers' tables as data: models, data sets, and published numbers. All sizes are those of the
// paper; a Scale reduces them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/train/run/train_config.h"
#include "lab/experiments/norms.h"
#include "lab/experiments/statistics.h"

namespace geores {

// One data set: a column of a table. `config` holds a task and its options.
struct Column {
  std::string name, label;
  nlohmann::json config;
};

// One model: a row. `config` holds keys of TrainConfig, the connection's options included.
struct Arm {
  std::string name, label;
  nlohmann::json config;
  std::map<std::string, Sample> published = {};  // by column; mean of `count` seeds
  // In a table of two factors: this arm's row and column. Empty: not in such a table.
  std::string row = {}, way = {};
  std::map<std::string, nlohmann::json> at = {};  // by column: keys that differ there
};

struct Experiment {
  std::string name, title;
  std::string text;  // the question, and notes for reading the answer
  std::vector<Column> columns;
  std::vector<Arm> arms;
  int quick_seeds = 1;  // at small scales; at the paper's there are three
  // Learning rates: each arm is trained with all of them and one seed first, then with all seeds at
  // its best one (language/sweep.h). Empty: the configured rate.
  std::vector<double> rates = {};
  // The measurements on every finished run (language/measures.h).
  std::vector<std::string> measures = {};
  bool for_speed = false;  // too few steps to compare losses: the report omits them

  bool is_own() const;  // among own_experiments()

  // Whether its arms are combinations of two factors, row and way.
  bool two_way() const { return !arms.empty() && !arms.front().row.empty(); }

  const Arm& arm(const std::string& name) const;
  const Column& column(const std::string& name) const;
};

// The EΔ paper's (arXiv:2605.06729) tables, the θ sweep, and the controls it lacks.
const std::vector<Experiment>& paper_experiments();

// Questions beyond the paper. They run only when `reproduce --only` names them.
const std::vector<Experiment>& own_experiments();

// The own experiment whose models' norms are measured.
inline constexpr auto kOwnNorms = "orthogonal";

// "A is better than B on this data": arms of one experiment.
struct Claim {
  std::string text;
  std::string experiment, column, better, worse;
};
const std::vector<Claim>& paper_claims();

// Table 18: |‖ŷ‖/‖x‖ − 1| on random vectors, by arm of the main table.
const std::map<std::string, double>& published_norm_deviations();

// The size of a reproduction. Zero keeps the published number.
struct Scale {
  std::string name = "paper";
  // Data and models: changing them changes the problem, so the numbers are not comparable with
  // published ones.
  int64_t width_divisor = 0, depth_divisor = 0;
  int64_t gyroscope_sequences = 0, train_sequences = 0, validation_sequences = 0, length = 0;
  int64_t steps = 0, batch = 0, eval_batches = 0;
  // The amount of work.
  bool all_seeds = true;                   // false: the experiment's number for small scales
  std::vector<int64_t> chosen_seeds = {};  // instead of the paper's, for everything
  std::vector<int64_t> reflection_samples = {10, 25, 50, 100, 200, 500};
  std::vector<int64_t> reflection_seeds = {42, 123, 456};
  int64_t reflection_steps = 2000;
  NormConfig norms = {};

  bool comparable() const { return steps == 0; }
  std::vector<int64_t> seeds(const Experiment& experiment) const;
  const std::vector<int64_t>& probe_seeds() const {
    return chosen_seeds.empty() ? reflection_seeds : chosen_seeds;
  }
};

Scale paper_scale();
Scale quick_scale();                        // minutes on two cores
Scale scale_from(const std::string& name);  // "paper" or "quick"

struct Hardware {
  std::string device = "cpu", precision = "fp32";
};

// The complete configuration of one run.
TrainConfig run_config(const Column& column, const Arm& arm, int64_t seed, const Scale& scale,
                       const Hardware& hardware);

// The name of a run's folder: task, model, seed, and a hash of all options that are not at their
// default. Equal configurations in different tables are one run.
std::string run_name(const TrainConfig& config);

// A finished run belongs to the configuration in its folder's name, unless defaults have changed
// since; then it is refused.
void require_same_defaults(const std::string& run_folder);

}  // namespace geores
