#include "lab/experiments/reproduce.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/files/folder_lock.h"
#include "geores/base/nearest.h"
#include "geores/ops/run/device_named.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/run/precision.h"
#include "geores/train/device/recorded_work.h"
#include "geores/train/run/finished_run.h"
#include "geores/train/trainer.h"
#include "lab/experiments/report.h"
#include "lab/experiments/time/time_estimate.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

// Nothing was trained or measured: after a failed first attempt, the next one may differ.
bool is_untouched(const fs::path& out, const std::vector<std::string>& folders) {
  if (fs::exists(out / "results.json")) return false;
  std::error_code ignored;
  for (const auto& folder : folders)
    for (const auto& entry : fs::directory_iterator(out / folder, ignored))
      if (folder != "runs" || holds_run(entry.path().string())) return false;
  return true;
}

// One folder is one reproduction: other sizes, seeds or devices would mix their numbers.
nlohmann::json identity_of(const ReproduceOptions& options) {
  return {{"scale", options.scale.name},
          {"device", options.hardware.device},
          {"precision", options.hardware.precision},
          {"seeds", options.scale.chosen_seeds}};  // none: the paper's
}

void check_names(const std::vector<std::string>& only) {
  const auto known = experiment_names();
  for (const auto& name : only)
    require(std::find(known.begin(), known.end(), name) != known.end(), "reproduce",
            "unknown experiment '{}'{}", name, did_you_mean(name, known));
}

bool wanted(const ReproduceOptions& options, const std::string& name) {
  return options.only.empty() ||
         std::find(options.only.begin(), options.only.end(), name) != options.only.end();
}

// Norms are measured on models of two experiments. Own experiments run only if named.
bool norms_wanted(const ReproduceOptions& options, const std::string& experiment) {
  if (experiment == "main") return wanted(options, "norms");
  return experiment == kOwnNorms && !options.only.empty() && wanted(options, "own_norms");
}

std::vector<Experiment> wanted_experiments(const ReproduceOptions& options) {
  std::vector<Experiment> experiments;
  for (const auto& experiment : paper_experiments())
    if (wanted(options, experiment.name) || norms_wanted(options, experiment.name))
      experiments.push_back(experiment);
  for (const auto& experiment : own_experiments())
    if ((!options.only.empty() && wanted(options, experiment.name)) ||
        norms_wanted(options, experiment.name))
      experiments.push_back(experiment);
  for (auto& experiment : experiments) {
    keep_named(experiment.columns, options.columns);
    keep_named(experiment.arms, options.arms);
    require(!experiment.columns.empty() && !experiment.arms.empty(), "reproduce",
            "experiment {} has none of the data sets or models that were asked for",
            experiment.name);
    require(!norms_wanted(options, experiment.name) ||
                std::ranges::find(experiment.columns, kRolloutColumn, &Column::name) !=
                    experiment.columns.end(),
            "reproduce", "norms need the models of task {}", kRolloutColumn);
  }
  return experiments;
}

// A measurement that is one JSON file.
struct Measurement {
  fs::path path;
  Job job;
};

bool any_has_name(const std::vector<PlannedRun>& runs, const std::string& name) {
  return std::ranges::find(runs, name, &PlannedRun::name) != runs.end();
}

// Ends the job without a result when it must stop. Training runs do so themselves.
Job stoppable(Job job, const std::function<bool()>& stop) {
  if (!stop) return job;
  job.work = [work = std::move(job.work), stop](const std::function<void(int64_t)>& progress) {
    const auto go_on = [&] {
      if (stop()) throw RunStopped("a measurement was stopped");
    };
    go_on();
    work([&](int64_t done) {
      go_on();
      progress(done);
    });
  };
  return job;
}

void add_missing(std::vector<Job>& jobs, const std::vector<Measurement>& measurements,
                 const std::function<bool()>& stop) {
  for (const auto& one : measurements)
    if (!fs::exists(one.path)) jobs.push_back(stoppable(one.job, stop));
}

nlohmann::json read_json(const fs::path& path) {
  return parse_json(read_text_file(path), path.string());
}

void write_json(const fs::path& path, const nlohmann::json& content) {
  write_file_atomically(path, content.dump(1) + "\n");
}

// ---- Table 7

template <class Visit>
void for_each_probe(const ReproduceOptions& options, Visit&& visit) {
  for (const auto& probe : reflection_probes())
    for (const auto samples : options.scale.reflection_samples)
      for (const auto seed : options.scale.probe_seeds())
        visit(probe,
              ReflectionConfig{
                  .samples = samples, .steps = options.scale.reflection_steps, .seed = seed},
              fs::path(options.out) / "probes" /
                  fmt::format("{}-{}-seed{}.json", probe.name, samples, seed));
}

std::vector<Measurement> reflection_measurements(const ReproduceOptions& options) {
  std::vector<Measurement> all;
  for_each_probe(options, [&](const ReflectionProbe& probe, const ReflectionConfig& config,
                              const fs::path& path) {
    all.push_back({path,
                   // Steps of a probe are far cheaper than training steps.
                   {"reflection " + probe.name, std::max<int64_t>(1, config.steps / 10),
                    [probe, config, path](const std::function<void(int64_t)>& progress) {
                      write_json(path, run_reflection(probe, config,
                                                      [&](int64_t step) { progress(step / 10); }));
                    }}});
  });
  return all;
}

// ---- Table 18

std::vector<Measurement> norm_measurements(const ReproduceOptions& options,
                                           const Experiment& experiment, const std::string& runs,
                                           DatasetShelf& shelf) {
  std::vector<Measurement> all;
  for (const auto& column : experiment.columns)
    for (const auto& arm : experiment.arms)
      for (const auto seed : options.scale.seeds(experiment)) {
        const auto name = run_name(run_config(column, arm, seed, options.scale, options.hardware));
        const auto run = (fs::path(runs) / name).string();
        const auto path = fs::path(options.out) / "norms" / (name + ".json");
        auto config = options.scale.norms;
        if (column.name != kRolloutColumn) config.rollout_steps = 0;
        const auto device = options.hardware.device;
        all.push_back({path,
                       {"norms of " + name, std::max<int64_t>(1, config.rollout_steps),
                        [run, path, config, device, &shelf](const std::function<void(int64_t)>&) {
                          const auto loaded = load_run(run);
                          loaded.model->to(torch::Device(device));
                          write_json(path, measure_norms(*loaded.model,
                                                         *shelf.get(loaded.config.task), config));
                        },
                        /*after=*/name}});
      }
  return all;
}

NormResults collect_norms(const ReproduceOptions& options, const ExperimentFindings& findings) {
  NormResults norms;
  for (const auto& column : findings.experiment.columns)
    for (const auto& arm : findings.experiment.arms)
      for (const auto& run : findings.cell(column.name, arm.name).runs)
        norms[column.name][arm.name].push_back(
            read_json(fs::path(options.out) / "norms" / (fs::path(run).filename() += ".json")));
  return norms;
}

}  // namespace

void make_folder(const fs::path& path, const char* command) {
  std::error_code error;
  fs::create_directories(path, error);
  require(!error, command, "cannot create {}: {}", path.string(), error.message());
}

void claim_report_folder(const ReportKind& kind, const std::string& out,
                         const nlohmann::json& identity, const std::vector<std::string>& folders) {
  make_folder(out, kind.command);
  const auto path = fs::path(out) / kind.file;
  if (fs::exists(path) && !is_untouched(out, folders)) {
    const auto found = parse_json(read_text_file(path), path.string());
    for (const auto& [key, value] : identity.items())
      require(found.contains(key) && found[key] == value, kind.command,
              "{} holds {} with {} {}, asked for {}: choose another --out", out, kind.called, key,
              found.value(key, nlohmann::json()).dump(), value.dump());
  } else {
    write_file_atomically(path, identity.dump(2) + "\n");
  }
  for (const auto& folder : folders) make_folder(fs::path(out) / folder, kind.command);
}

// A repeated seed would count twice.
void check_seeds(const std::vector<int64_t>& seeds) {
  std::set<int64_t> seen;
  for (const auto seed : seeds) {
    require(seed >= 0, "reproduce", "seed {} is negative", seed);
    require(seen.insert(seed).second, "reproduce", "seed {} is given twice", seed);
  }
}

void check_hardware(const Hardware& hardware) {
  const auto device = device_named(hardware.device, "reproduce");
  require(on_gpu(device) || hardware.precision != "tf32", "reproduce",
          "precision tf32 needs device cuda");
}

std::vector<std::string> experiment_names() {
  std::vector<std::string> names;
  for (const auto& experiment : paper_experiments()) names.push_back(experiment.name);
  for (const auto& experiment : own_experiments()) names.push_back(experiment.name);
  names.insert(names.end(), {"reflection", "norms", "own_norms"});
  return names;
}

namespace {

// The first part of both forms.
std::vector<Experiment> checked_experiments(const ReproduceOptions& options) {
  check_names(options.only);
  check_seeds(options.scale.chosen_seeds);
  check_hardware(options.hardware);
  auto experiments = wanted_experiments(options);
  if (options.hardware.device == "cuda") {
    expect_cuda_streams(2 * options.jobs);  // one for the work, and one for its side stream
    set_float32_products(precision_from(options.hardware.precision));
  }
  make_folder(options.out, "reproduce");
  return experiments;
}

void claim_folder(const ReproduceOptions& options) {
  claim_report_folder(kReproduction, options.out, identity_of(options),
                      {"runs", "probes", "norms", "figures"});
}

// Trains and measures the missing parts. False if it was stopped.
bool work(const ReproduceOptions& options, const std::vector<Experiment>& experiments,
          const Shard& shard, DatasetShelf& shelf, const ReproduceListener& listener) {
  const auto runs = (fs::path(options.out) / "runs").string();
  const auto planned = shard.of(planned_runs(experiments, options.scale, options.hardware));
  const auto jobs = training_jobs(
      planned, runs, shelf, {.progress = {}, .notice = listener.notice, .stop = listener.stop});
  // Mixed with the runs: probes need no GPU, and afterwards only roll-outs would use it.
  std::vector<Job> probes, norms;
  if (wanted(options, "reflection"))
    add_missing(probes, shard.of(reflection_measurements(options)), listener.stop);
  for (const auto& experiment : experiments) {
    if (!norms_wanted(options, experiment.name)) continue;
    auto measurements = norm_measurements(options, experiment, runs, shelf);
    // Measurements on the shard's own runs.
    std::erase_if(measurements,
                  [&](const Measurement& one) { return !any_has_name(planned, one.job.after); });
    add_missing(norms, measurements, listener.stop);
  }
  if (listener.notice && !jobs.empty()) {
    int64_t other_steps = 0;
    for (const auto* others : {&probes, &norms})
      for (const auto& job : *others) other_steps += job.size;
    listener.notice(
        estimate_time(runs_to_time(planned, runs, shelf), other_steps, options.jobs, listener.stop)
            .text());
  }
  try {
    run_jobs(mixed(jobs, mixed(probes, norms)), options.jobs, listener.progress);
  } catch (const RunStopped&) {
    return false;
  }
  return true;
}

void merge_folders(const ReproduceOptions& options, const ReproduceListener& listener) {
  for (const auto& folder : options.merge) {
    const auto merged = merge_reproduction(folder, options.out);
    if (listener.notice)
      listener.notice(fmt::format("{} runs and {} measurements taken over from {}", merged.runs,
                                  merged.measurements, folder));
  }
}

}  // namespace

bool reproduce_shard(const ReproduceOptions& options, const Shard& shard,
                     const ReproduceListener& listener) {
  const auto experiments = checked_experiments(options);
  const FolderLock lock(options.out);
  claim_folder(options);
  DatasetShelf shelf(options.cache);
  return work(options, experiments, shard, shelf, listener);
}

std::optional<Findings> reproduce(const ReproduceOptions& options,
                                  const ReproduceListener& listener) {
  const auto experiments = checked_experiments(options);
  const FolderLock lock(options.out);
  claim_folder(options);
  merge_folders(options, listener);
  DatasetShelf shelf(options.cache);
  if (!work(options, experiments, {}, shelf, listener)) return std::nullopt;

  Findings findings{.scale = options.scale, .hardware = options.hardware, .folder = options.out};
  std::set<std::string> counted;
  for (const auto& experiment : experiments) {
    findings.experiments.push_back(
        read_findings(experiment, options.scale, options.hardware, options.out, shelf));
    for (const auto& [column, arms] : findings.experiments.back().cells)
      for (const auto& [arm, cell] : arms)
        for (const auto& run : cell.runs)
          if (counted.insert(run).second)
            findings.train_seconds += read_result(run).at("seconds").get<double>();
  }
  if (wanted(options, "reflection"))
    for_each_probe(options, [&](const ReflectionProbe& probe, const ReflectionConfig& config,
                                const fs::path& path) {
      findings.reflection[probe.name][config.samples].push_back(read_json(path));
    });
  findings.norm_length = options.scale.norms.random_length;
  if (norms_wanted(options, "main"))
    findings.norms = collect_norms(options, *findings.find("main"));
  if (norms_wanted(options, kOwnNorms))
    findings.own_norms = collect_norms(options, *findings.find(kOwnNorms));
  write_report(findings.folder, make_report(findings), findings.to_json());
  return findings;
}

}  // namespace geores
