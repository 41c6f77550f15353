#include "lab/experiments/time/time_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>

#include "geores/model/recursive/recursive_kind.h"

namespace geores {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::duration;

// Timing ends after so many seconds: kinds that were not reached count as an average one.
constexpr double kMostSeconds = 15;
// A GPU's step is recorded in its first ones.
constexpr std::size_t kUntimedSteps = 1, kUntimedOnAGpu = 8, kTimedSteps = 3;
// A forward pass of an evaluation, in training steps, where it is not timed.
constexpr double kForwardPass = 0.4;

struct Timing {
  double step = NAN, evaluated_batch = NAN;  // seconds
};

// The listener is asked to stop before every step.
Timing time_steps(const RunToTime& run, const std::function<bool()>& stop) {
  const auto untimed = run.on_gpu ? kUntimedOnAGpu : kUntimedSteps;
  std::vector<Clock::time_point> begins;
  Listener listener;
  listener.stop = [&] {
    begins.push_back(Clock::now());
    return begins.size() > untimed + kTimedSteps || (stop && stop());
  };
  run.train(listener);
  if (begins.size() < untimed + 2) return {};
  const auto seconds = [&](std::size_t first, std::size_t last) {
    return duration<double>(begins[last] - begins[first]).count();
  };
  const auto last = begins.size() - 1;
  const auto step = seconds(untimed, last) / static_cast<double>(last - untimed);
  // On a GPU the first step is no step like the others.
  const bool measured = run.evaluates_first && !run.on_gpu;
  return {.step = step,
          .evaluated_batch = measured ? std::max(0.0, seconds(0, 1) - step) : kForwardPass * step};
}

std::string kind_of(nlohmann::json config) {
  for (const auto* key : {"seed", "lr", "min_lr", "warmup", "steps", "weight_decay", "epochs"})
    config.erase(key);
  return config.dump();
}

double batches(int64_t sequences, int64_t batch) {
  return std::ceil(static_cast<double>(sequences) / static_cast<double>(batch));
}

double evaluated_sequence_batches(const TrainConfig& config, const Dataset& data) {
  const auto sets = data.text() ? 2 : 1;  // a text is evaluated on windows of both splits
  const auto validation =
      data.text() ? data.validation_ids.size(0) / data.length() : data.validation_x.size(0);
  const auto evaluations = static_cast<double>(config.steps / config.eval_interval + 1);
  return sets * evaluations * static_cast<double>(config.eval_batches) +
         static_cast<double>(config.final_eval_batches) + 2 * batches(validation, config.batch);
}

double evaluated_puzzle_batches(const TrainConfig& config, const Dataset& data) {
  const auto tests = data.puzzle_set->test().rows();
  const auto rows = static_cast<double>(config.steps / config.eval_interval) *
                        static_cast<double>(std::min(config.eval_rows, tests)) +
                    static_cast<double>(tests);
  return rows / static_cast<double>(config.batch) *
         static_cast<double>(recursive_options(config.model).act_steps);
}

std::string rough_time(double seconds) {
  if (!(seconds >= 0)) return "for an unknown time";
  if (seconds < 90) return fmt::format("about {:.0f} seconds", std::ceil(seconds));
  if (seconds < 90 * 60) return fmt::format("about {:.0f} minutes", seconds / 60);
  if (seconds < 36 * 3600) return fmt::format("about {:.0f} hours", seconds / 3600);
  return fmt::format("about {:.0f} days", seconds / 86400);
}

}  // namespace

std::vector<RunToTime> runs_to_time(const std::vector<PlannedRun>& runs, const std::string& folder,
                                    DatasetShelf& shelf) {
  std::vector<RunToTime> all;
  for (const auto& run : runs)
    if (!fs::exists(fs::path(folder) / run.name / "result.json"))
      all.push_back(run_to_time(run.config, shelf.get(run.config.task)));
  return all;
}

RunToTime run_to_time(const TrainConfig& config, const std::shared_ptr<const Dataset>& dataset) {
  const bool puzzles = dataset->puzzle_set != nullptr;
  return {.kind = kind_of(config.write()),
          .steps = config.steps,
          .evaluated_batches = puzzles ? evaluated_puzzle_batches(config, *dataset)
                                       : evaluated_sequence_batches(config, *dataset),
          .on_gpu = config.device == "cuda",
          .evaluates_first = !puzzles,
          .train = [config, dataset](const Listener& listener) {
            auto short_run = config;
            short_run.eval_batches = short_run.final_eval_batches = 1;
            short_run.log_interval = 1;  // on a GPU that waits for the step
            train(short_run, *dataset, {}, listener);
          }};
}

std::string TimeEstimate::text() const {
  return fmt::format(
      "{} run{} with {} steps{}: {}{}{}", runs, runs == 1 ? "" : "s", steps,
      runs == 1 ? "" : " together", rough_time(seconds),
      jobs > 1 ? fmt::format(", {} at a time", jobs) : "",
      timed < kinds ? fmt::format(" ({} of {} kinds of runs were timed)", timed, kinds) : "");
}

TimeEstimate estimate_time(const std::vector<RunToTime>& runs, int64_t other_steps, int jobs,
                           const std::function<bool()>& stop) {
  std::map<std::string, Timing> timings;
  std::vector<Job> probes;
  const auto start = Clock::now();
  for (const auto& run : runs) {
    const auto [entry, is_new] = timings.emplace(run.kind, Timing());
    if (!is_new) continue;
    probes.push_back({"timing", 1, [&, &timing = entry->second](const auto&) {
                        const auto late = [&] {
                          return duration<double>(Clock::now() - start).count() > kMostSeconds;
                        };
                        if (late() || (stop && stop())) return;
                        timing = time_steps(run, [&] { return late() || (stop && stop()); });
                      }});
  }
  run_jobs(probes, jobs, {});

  TimeEstimate estimate{.runs = static_cast<int64_t>(runs.size()),
                        .jobs = std::max(1, std::min(jobs, static_cast<int>(runs.size()))),
                        .kinds = timings.size()};
  Timing mean{.step = 0, .evaluated_batch = 0};
  for (const auto& [kind, timing] : timings) {
    if (!std::isfinite(timing.step)) continue;
    ++estimate.timed;
    mean.step += timing.step;
    mean.evaluated_batch += timing.evaluated_batch;
  }
  mean.step /= static_cast<double>(estimate.timed);  // none: NaN
  mean.evaluated_batch /= static_cast<double>(estimate.timed);
  double longest = 0;
  for (const auto& run : runs) {
    estimate.steps += run.steps;
    const auto& timed = timings.at(run.kind);
    const auto& timing = std::isfinite(timed.step) ? timed : mean;
    const auto seconds = static_cast<double>(run.steps) * timing.step +
                         run.evaluated_batches * timing.evaluated_batch;
    longest = std::max(longest, seconds);
    estimate.seconds += seconds;
  }
  estimate.seconds += static_cast<double>(other_steps) * mean.step;
  if (estimate.seconds / estimate.jobs < longest)
    estimate.seconds = longest;
  else
    estimate.seconds /= estimate.jobs;
  return estimate;
}

}  // namespace geores
