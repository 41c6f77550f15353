#include "lab/experiments/runner.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <thread>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/data/validation_sample.h"
#include "geores/ops/run/execution.h"
#include "lab/diagnostics/diagnostics_log.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

// The number of windows on which a run is followed during training: enough for a curve, and cheap.
constexpr int64_t kFollowedSequences = 4;

std::string recipe_text(const TaskConfig& task) { return task.completed().to_json().dump(); }

// About ten of a run's evaluations.
int64_t followed_interval(const TrainConfig& config) {
  return std::max<int64_t>(1, config.steps / (10 * config.eval_interval)) * config.eval_interval;
}

void train_run(const PlannedRun& run, const std::string& folder, DatasetShelf& shelf,
               const Listener& outer, const std::function<void(int64_t)>& progress) {
  const auto path = (fs::path(folder) / run.name).string();
  Listener listener;
  listener.progress = [&](const Progress& p) { progress(p.step); };
  listener.notice = [&](const std::string& text) {
    if (outer.notice) outer.notice(run.name + ": " + text);
  };
  listener.stop = outer.stop;
  const auto dataset = shelf.get(run.config.task);
  if (const auto& follow = run.follow; follow.mixers || follow.ranks || follow.betas)
    listener.evaluated =
        [log = std::make_shared<DiagnosticsLog>(
             validation_sample(*dataset, follow.betas ? kDiagnosedSequences : kFollowedSequences).x,
             follow, follow.betas ? 1 : followed_interval(run.config), run.config.steps)](
            int64_t step, Model& model, const fs::path& run_folder) {
          log->measure(step, model, run_folder);
        };
  const auto result =
      train(run.config, *dataset, {.path = path, .resume = can_resume(path)}, listener);
  if (result.interrupted) throw RunStopped(run.name + " was stopped");
}

}  // namespace

std::shared_ptr<const Dataset> DatasetShelf::get(const TaskConfig& task) {
  const std::lock_guard lock(mutex_);
  auto& dataset = datasets_[recipe_text(task)];
  if (!dataset) dataset = std::make_shared<Dataset>(load_dataset(task, cache_));
  return dataset;
}

const std::vector<Baseline>& DatasetShelf::baselines(const TaskConfig& task) {
  const auto dataset = get(task);
  const std::lock_guard lock(mutex_);
  auto& baselines = baselines_[recipe_text(task)];
  if (baselines.empty()) baselines = trivial_baselines(*dataset);
  return baselines;
}

std::vector<PlannedRun> planned_runs(const std::vector<Experiment>& experiments, const Scale& scale,
                                     const Hardware& hardware) {
  std::vector<PlannedRun> runs;
  std::map<std::string, std::size_t> index_of;  // in runs
  for (const auto& experiment : experiments)
    for (const auto& column : experiment.columns)
      for (const auto seed : scale.seeds(experiment))
        for (const auto& arm : experiment.arms) {
          const auto config = run_config(column, arm, seed, scale, hardware);
          const auto measured = [&](const char* what) {
            return std::ranges::count(experiment.measures, what) > 0;
          };
          const auto [found, is_new] = index_of.emplace(run_name(config), runs.size());
          if (is_new) runs.push_back({found->first, config});
          auto& follow = runs[found->second].follow;
          follow.mixers |= measured("mixers");
          follow.ranks |= measured("ranks");
          follow.betas |= measured("beta");
        }
  return runs;
}

// A data folder's contents may have changed since the run. A run without model.json cannot be
// compared.
void require_same_text(const std::string& run, const Dataset& dataset) {
  const auto file = fs::path(run) / "model.json";
  if (!dataset.text() || !fs::exists(file)) return;
  const auto built = parse_json(read_text_file(file), file.string());
  const auto origin = built.is_object() ? built.value("origin", nlohmann::json()) : nullptr;
  for (const auto* key : {"train_ids_sha256", "val_ids_sha256"})
    require(!origin.is_object() || !origin.contains(key) || !dataset.origin.facts.contains(key) ||
                origin[key] == dataset.origin.facts[key],
            run, "was trained on a text that has changed since: choose another --out");
}

std::vector<Job> training_jobs(const std::vector<PlannedRun>& runs, const std::string& folder,
                               DatasetShelf& shelf, const Listener& listener) {
  std::vector<Job> jobs;
  for (const auto& run : runs) {
    const auto path = fs::path(folder) / run.name;
    if (fs::exists(path / "result.json")) {
      require_same_defaults(path.string());
      if (run.config.task.name == "text")
        require_same_text(path.string(), *shelf.get(run.config.task));
      continue;
    }
    jobs.push_back({run.name, run.config.steps,
                    [&shelf, run, folder, listener](const std::function<void(int64_t)>& progress) {
                      train_run(run, folder, shelf, listener, progress);
                    }});
  }
  return jobs;
}

std::vector<Job> mixed(const std::vector<Job>& a, const std::vector<Job>& b) {
  std::vector<Job> all;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    all.push_back(a[i]);
    for (; taken < b.size() * (i + 1) / a.size(); ++taken) all.push_back(b[taken]);
  }
  all.insert(all.end(), b.begin() + static_cast<std::ptrdiff_t>(taken), b.end());
  return all;
}

void run_jobs(const std::vector<Job>& jobs, int threads,
              const std::function<void(const JobProgress&)>& progress) {
  std::mutex mutex;
  std::condition_variable something_ended;
  std::vector<int64_t> done(jobs.size(), 0);
  std::vector<bool> taken(jobs.size(), false);
  std::map<std::string, int> unfinished;  // how many of this name
  int running = 0;
  JobProgress state;
  for (const auto& job : jobs) {
    state.total += job.size;
    ++unfinished[job.name];
  }
  std::exception_ptr failure;

  // The first unassigned job that need not wait; none: there will be none.
  const auto take = [&]() -> std::optional<std::size_t> {
    std::unique_lock lock(mutex);
    while (!failure) {
      bool some_wait = false;
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (taken[i]) continue;
        const auto before = unfinished.find(jobs[i].after);
        if (before != unfinished.end() && before->second > 0) {
          some_wait = true;
          continue;
        }
        taken[i] = true;
        ++running;
        return i;
      }
      if (!some_wait) return std::nullopt;
      if (running == 0)
        failure = std::make_exception_ptr(Error("[jobs] those that are left wait for each other"));
      else
        something_ended.wait(lock);
    }
    return std::nullopt;
  };
  const auto end = [&](std::size_t index, std::exception_ptr error) {
    const std::lock_guard lock(mutex);
    --running;
    --unfinished[jobs[index].name];
    if (error && !failure) failure = error;
    something_ended.notify_all();
  };
  const auto report = [&](std::size_t index, int64_t steps) {
    const std::lock_guard lock(mutex);
    state.done += steps - done[index];
    done[index] = steps;
    state.current = jobs[index].name;
    if (progress) progress(state);
  };
  const auto work = [&](int workers_cores) {
    at::set_num_threads(workers_cores);
    while (const auto index = take()) try {
        jobs[*index].work(
            [&](int64_t steps) { report(*index, std::min(steps, jobs[*index].size)); });
        report(*index, jobs[*index].size);
        end(*index, nullptr);
      } catch (...) {
        end(*index, std::current_exception());
      }
  };

  const auto cores = at::get_num_threads();
  threads = std::clamp(threads, 1, std::max(1, static_cast<int>(jobs.size())));
  if (threads == 1) {
    work(cores);
  } else {
    // Concurrent runs would wait for each other in a BLAS's single thread pool.
    const SerialProducts serial;
    std::vector<std::thread> workers;
    for (int i = 0; i < threads; ++i) workers.emplace_back(work, std::max(1, cores / threads));
    for (auto& worker : workers) worker.join();
    at::set_num_threads(cores);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace geores
