// About how long training will take, told before it begins. A few steps of each kind of run are taken in
// memory, side by side as the runs will be.
//   24 runs with 7200 steps: about 6 minutes, 2 at a time
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lab/experiments/runner.h"

namespace geores {

struct RunToTime {
  std::string kind;  // runs of one kind are timed once
  int64_t steps = 0;
  double evaluated_batches = 0;  // of all evaluations
  bool on_gpu = false;
  // With an evaluation of one batch before the first step; without one, such a batch is counted as a part
  // of a step.
  bool evaluates_first = true;
  // Trains in memory until the listener stops it.
  std::function<void(const Listener&)> train = {};
};

// Of the runs that have no result in their folder yet; a run that was begun counts as a whole one.
std::vector<RunToTime> runs_to_time(const std::vector<PlannedRun>& runs, const std::string& folder,
                                    DatasetShelf& shelf);
RunToTime run_to_time(const TrainConfig& config, const std::shared_ptr<const Dataset>& dataset);

struct TimeEstimate {
  int64_t runs = 0, steps = 0;
  double seconds = 0;  // NaN: no step could be timed
  int jobs = 1;
  std::size_t kinds = 0, timed = 0;  // kinds of runs; there is a limit to how long they are timed

  std::string text() const;
};

// `other_steps`: other work, in steps of an average run. Ends early when it is asked to stop.
TimeEstimate estimate_time(const std::vector<RunToTime>& runs, int64_t other_steps, int jobs,
                           const std::function<bool()>& stop);

}  // namespace geores
