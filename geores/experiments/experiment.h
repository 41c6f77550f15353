// The papers' tables as data: which models on which data, and what was published. Everything here
// is at the paper's size; a Scale says how large to run it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/experiments/statistics.h"
#include "geores/train/train_config.h"

namespace geores {

// One data set: a column of a table. `config` holds keys of TaskConfig.
struct Column {
  std::string name, label;
  nlohmann::json config;
};

// One model: a row. `config` holds keys of TrainConfig, the connection's options included.
struct Arm {
  std::string name, label;
  nlohmann::json config;
  std::map<std::string, Sample> published = {};  // by column; mean of `count` seeds
};

struct Experiment {
  std::string name, title;
  std::string text;  // what is asked, and what to know when reading the answer
  std::vector<Column> columns;
  std::vector<Arm> arms;
  // At quick scale; at paper scale there are three seeds and all columns.
  int quick_seeds = 1;
  std::size_t quick_columns = 0;  // 0: all

  const Arm& arm(const std::string& name) const;
  const Column& column(const std::string& name) const;
};

// The EΔ paper's (arXiv:2605.06729) tables, the θ sweep, and the controls it lacks.
const std::vector<Experiment>& paper_experiments();

// The models of the main table, for `geores train --preset`.
const std::vector<Arm>& presets();

// "A is better than B on this data": arms of one experiment.
struct Claim {
  std::string text;
  std::string experiment, column, better, worse;
};
const std::vector<Claim>& paper_claims();

// How large: "paper" as published, or "quick", which changes data, width, depth and steps so that
// everything takes minutes on two cores; its numbers are not comparable with published ones.
struct Scale {
  std::string name;

  bool quick() const { return name == "quick"; }
  std::vector<int64_t> seeds(const Experiment& experiment) const;
  std::vector<Column> columns(const Experiment& experiment) const;
};
Scale scale_from(const std::string& name);

struct Hardware {
  std::string device = "cpu", precision = "fp32";
};

// The complete configuration of one run.
TrainConfig run_config(const Column& column, const Arm& arm, int64_t seed, const Scale& scale,
                       const Hardware& hardware);

// A folder name that tells task, model and seed, and by a hash of the whole configuration keeps
// different runs apart. Equal configurations, in whichever tables, are one run.
std::string run_name(const TrainConfig& config);

}  // namespace geores
