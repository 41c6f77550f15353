// Trains what the tables need, several runs side by side, and reads back what they left. A run is
// a folder as `geores train` makes it; finished ones are not trained again, interrupted ones are
// continued.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "geores/base/error.h"
#include "geores/data/baselines.h"
#include "geores/diagnostics/diagnostics_log.h"
#include "geores/experiments/experiment.h"
#include "geores/train/trainer.h"

namespace geores {

// Data sets by recipe, each generated or read once. Safe to use from several threads.
class DatasetShelf {
 public:
  explicit DatasetShelf(std::string cache) : cache_(std::move(cache)) {}
  std::shared_ptr<const Dataset> get(const TaskConfig& task);
  const std::vector<Baseline>& baselines(const TaskConfig& task);

 private:
  std::string cache_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Dataset>> datasets_;
  std::map<std::string, std::vector<Baseline>> baselines_;
};

struct PlannedRun {
  std::string name;  // of its folder
  TrainConfig config;
  // What is written to diagnostics.jsonl: β of many windows at every evaluation; without β, the rest of
  // a few windows at about ten evaluations.
  DiagnosedParts follow = {.mixers = false, .ranks = false, .betas = false};
};

// Every run of the experiments once, in their order, all arms with one seed before the next: what is
// there when time ends can be compared.
std::vector<PlannedRun> planned_runs(const std::vector<Experiment>& experiments, const Scale& scale,
                                     const Hardware& hardware);

// Something with a name that may already be there, and the work to make it.
struct Job {
  std::string name;
  int64_t size = 1;  // in steps, for the progress bar
  std::function<void(const std::function<void(int64_t done)>& progress)> work;
  std::string after = {};  // name of the job whose result it needs; not in the list: it is there
};

// Both in their order, b spread over a: probes that need no GPU run beside what does.
std::vector<Job> mixed(const std::vector<Job>& a, const std::vector<Job>& b);

struct JobProgress {
  int64_t done = 0, total = 0;  // steps
  std::string current;          // the job that last moved
};

// Works through the jobs on `threads` threads, each with its share of the cores, in their order but
// for those that have to wait for another. The first failure
// stops the start of new jobs and is thrown when the running ones have ended.
void run_jobs(const std::vector<Job>& jobs, int threads,
              const std::function<void(const JobProgress&)>& progress);

// A job's listener has stopped its run.
struct RunStopped : Error {
  using Error::Error;
};

// The training of each run that has no result yet in folder/name. The listener hears notices, and
// may stop all runs; progress goes to the jobs.
std::vector<Job> training_jobs(const std::vector<PlannedRun>& runs, const std::string& folder,
                               DatasetShelf& shelf, const Listener& listener);

}  // namespace geores
