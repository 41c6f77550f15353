// Runs a paper's experiments with language models and writes the report: first the learning rates,
// then every arm at its best one with all seeds, then the measurements on finished runs. In OUT:
//   index.html, tables.md, results.json, figures/*.svg    the report
// runs/                one folder per training run, as written by `geores train`
//   diagnostics/         one JSON file per measured run
//   ngrams/              losses of tables of counts, one JSON file per text
//   reproduction.json    paper, scale, device, precision and steps
// asked.json           all seeds and rates that commands have requested
// Interrupted, it continues with the missing work. A command may select a part of the work: some
// experiments, arms, columns, seeds or rates. The report always covers all finished runs in the
// folder, so several commands on several machines can fill a large table: only a run's result.json
// and metrics.jsonl, and diagnostics/, need to be copied.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lab/experiments/language/papers.h"
#include "lab/experiments/reproduce.h"

namespace geores {

struct LanguageOptions {
  std::string paper = "mgt", scale = "quick";
  std::string data = "data";  // folder of prepared texts (papers.h)
  std::string out = "report";
  Hardware hardware = {};
  // The training runs to select; empty: all.
  std::vector<std::string> only = {}, columns = {}, arms = {};
  std::vector<int64_t> seeds = {};
  std::vector<double> rates = {};  // to sweep, instead of the paper's
  int64_t steps = 0;               // 0: the paper's
  int jobs = 2;
  std::string cache = {};
  bool report_only = false;  // train and measure nothing; device and precision are the folder's
};

struct LanguageFindings {
  LanguagePaper paper;
  std::string scale;
  Hardware hardware;
  std::string folder;
  std::vector<ExperimentFindings> experiments = {};        // settled; those with a finished run
  std::vector<ExperimentFindings> sweeps = {};             // of those that have rates
  std::map<std::string, nlohmann::json> measured = {};     // by name of the run (measures.h)
  std::map<std::string, std::vector<double>> ngrams = {};  // by name of the text, n = 0, 1, ...
  double train_seconds = 0;                                // of all runs, one after the other
  std::set<std::string> made_with = {};                    // machines and programs, of all runs

  const ExperimentFindings* find(const std::string& experiment) const;
  const ExperimentFindings* sweep(const std::string& experiment) const;
  const nlohmann::json* measured_on(const std::string& run_folder) const;
  nlohmann::json to_json() const;
};

// The paper that the options name. nullopt if the listener stopped it.
std::optional<LanguageFindings> reproduce_language(const LanguageOptions& options,
                                                   const ReproduceListener& listener = {});
std::optional<LanguageFindings> reproduce_language(const LanguagePaper& paper,
                                                   const LanguageOptions& options,
                                                   const ReproduceListener& listener = {});

}  // namespace geores
