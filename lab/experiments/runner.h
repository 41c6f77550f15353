// Trains the runs of the tables, several at a time, and reads their results. A run is a folder of
// `geores train`; finished ones are not trained again, interrupted ones are continued.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "geores/base/error.h"
#include "geores/data/baselines.h"
#include "geores/train/trainer.h"
#include "lab/diagnostics/diagnostics_log.h"
#include "lab/experiments/experiment.h"

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
  // The contents of diagnostics.jsonl: β of many windows at every evaluation; without β, the other
  // measurements on few windows at about ten evaluations.
  DiagnosedParts follow = {.mixers = false, .ranks = false, .betas = false};
};

// Every run of the experiments once, in their order, all arms with one seed before the next seed,
// so that an interrupted study has comparable arms.
std::vector<PlannedRun> planned_runs(const std::vector<Experiment>& experiments, const Scale& scale,
                                     const Hardware& hardware);

// A named result, and the work that produces it.
struct Job {
  std::string name;
  int64_t size = 1;  // in steps, for the progress bar
  std::function<void(const std::function<void(int64_t done)>& progress)> work;
  std::string after =
      {};  // name of a job whose result it needs; not in the list: the result exists
};

// Both lists in their order, b spread over a: probes that need no GPU run next to jobs that do.
std::vector<Job> mixed(const std::vector<Job>& a, const std::vector<Job>& b);

struct JobProgress {
  int64_t done = 0, total = 0;  // steps
  std::string current;          // the job that last moved
};

// Runs the jobs on `threads` threads, each with its share of the cores, in their order except for
// jobs that wait for another. The first failure prevents new jobs and is thrown when the running
// ones have ended.
void run_jobs(const std::vector<Job>& jobs, int threads,
              const std::function<void(const JobProgress&)>& progress);

// A job's listener has stopped its run.
struct RunStopped : Error {
  using Error::Error;
};

// The training of each run that has no result yet in folder/name. The listener receives notices,
// and may stop all runs; progress goes to the jobs.
std::vector<Job> training_jobs(const std::vector<PlannedRun>& runs, const std::string& folder,
                               DatasetShelf& shelf, const Listener& listener);

}  // namespace geores
