// Runs the paper's experiments and writes the report. In its folder:
//   index.html, tables.md, results.json, figures/*.svg    the report
// runs/                    one folder per training run, as written by `geores train`
//   probes/, norms/          one JSON file per measurement
//   reproduction.json        scale, device, precision and chosen seeds
// Interrupted, it continues with the missing work.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lab/experiments/findings.h"
#include "lab/experiments/shards/shard.h"

namespace geores {

struct ReproduceOptions {
  std::string out = "report";
  Scale scale = quick_scale();
  Hardware hardware = {};
  std::vector<std::string> only = {};  // names of experiments; empty: all
  // Of these experiments, data sets and models by name; empty: all.
  std::vector<std::string> columns = {}, arms = {};
  std::vector<std::string> merge = {};  // folders of shards, whose runs are copied first
  int jobs = 2;                         // number of concurrent runs
  std::string cache = {};               // folder for generated data
};

// Creates the folder and its parents; errors are in the name of `command`.
void make_folder(const std::filesystem::path& path, const char* command);

// The file by which a command identifies its folder, and the folder's name in error messages.
struct ReportKind {
  const char *command, *file, *called;
};
inline constexpr ReportKind kReproduction{"reproduce", "reproduction.json", "a reproduction"};

// Creates the folder of a report and these subfolders. Refuses a folder with another report (a key
// of `identity` differs), unless nothing was trained or measured in it.
void claim_report_folder(const ReportKind& kind, const std::string& out,
                         const nlohmann::json& identity, const std::vector<std::string>& folders);

// Refuses seeds that are negative or given twice, and unavailable hardware.
void check_seeds(const std::vector<int64_t>& seeds);
void check_hardware(const Hardware& hardware);

// Keeps those that the list names; all if the list is empty.
template <class Named>
void keep_named(std::vector<Named>& all, const std::vector<std::string>& names) {
  if (!names.empty())
    std::erase_if(all, [&](const Named& one) { return std::ranges::count(names, one.name) == 0; });
}

// The names that `only` may contain.
std::vector<std::string> experiment_names();

struct ReproduceListener {
  std::function<void(const JobProgress&)> progress;
  std::function<void(const std::string&)> notice;
  std::function<bool()> stop = {};  // as in Listener (train/trainer.h)
};

// Trains and measures the part of one shard, and writes no report. False if the listener stopped
// it.
bool reproduce_shard(const ReproduceOptions& options, const Shard& shard,
                     const ReproduceListener& listener = {});

// nullopt if the listener stopped it.
std::optional<Findings> reproduce(const ReproduceOptions& options,
                                  const ReproduceListener& listener = {});

}  // namespace geores
