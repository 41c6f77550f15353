#include "lab/experiments/language/reproduce_language.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/files/folder_lock.h"
#include "geores/ops/run/precision.h"
#include "geores/text/ngrams.h"
#include "geores/text/prepared.h"
#include "geores/train/device/recorded_work.h"
#include "geores/train/run/finished_run.h"
#include "lab/experiments/language/language_report.h"
#include "lab/experiments/language/measures.h"
#include "lab/experiments/language/shuffled_text.h"
#include "lab/experiments/language/sweep.h"
#include "lab/experiments/language/verdicts.h"
#include "lab/experiments/report.h"
#include "lab/experiments/time/time_estimate.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kFolders = {"runs", "diagnostics", "ngrams", "figures"};

nlohmann::json json_in(const fs::path& path) {
  return parse_json(read_text_file(path), path.string());
}

nlohmann::json identity_of(const LanguageOptions& options) {
  return {{"paper", options.paper},
          {"scale", options.scale},
          {"device", options.hardware.device},
          {"precision", options.hardware.precision},
          {"steps", options.steps}};
}

// The experiments that the command selects.
std::vector<Experiment> wanted_experiments(const LanguagePaper& paper,
                                           const LanguageOptions& options) {
  std::vector<Experiment> experiments;
  if (options.only.empty()) experiments = paper.experiments;
  for (const auto& name : options.only) experiments.push_back(paper.experiment(name));
  for (auto& experiment : experiments) {
    keep_named(experiment.columns, options.columns);
    keep_named(experiment.arms, options.arms);
    require(options.only.empty() || (!experiment.columns.empty() && !experiment.arms.empty()),
            "reproduce", "experiment {} has none of the data sets or models that were asked for",
            experiment.name);
    if (!options.rates.empty() && !experiment.rates.empty()) experiment.rates = options.rates;
  }
  std::erase_if(experiments,
                [](const Experiment& one) { return one.columns.empty() || one.arms.empty(); });
  return experiments;
}

// The options with all seeds and rates that commands have requested in this folder: their finished
// runs count for any command.
LanguageOptions with_earlier_ones(LanguageOptions options) {
  const auto path = fs::path(options.out) / "asked.json";
  const auto before = fs::exists(path) ? json_in(path) : nlohmann::json::object();
  const auto add = [&](auto& all, const char* key) {
    for (const auto& one : before.value(key, all))
      if (std::ranges::count(all, one) == 0) all.push_back(one);
    std::ranges::sort(all);
  };
  add(options.seeds, "seeds");
  add(options.rates, "rates");
  const nlohmann::json now = {{"seeds", options.seeds}, {"rates", options.rates}};
  if (now != before) write_file_atomically(path, now.dump() + "\n");
  return options;
}

Scale scale_of_report(const LanguageOptions& options) {
  auto scale = language_scale(options.scale);
  scale.chosen_seeds = {42, 123, 456};
  for (const auto seed : options.seeds)
    if (std::ranges::count(scale.chosen_seeds, seed) == 0) scale.chosen_seeds.push_back(seed);
  return scale;
}

Experiment with_all_rates(Experiment experiment, const std::vector<double>& given) {
  if (experiment.rates.empty()) return experiment;
  experiment.rates.insert(experiment.rates.end(), given.begin(), given.end());
  std::ranges::sort(experiment.rates);
  experiment.rates.erase(std::ranges::unique(experiment.rates).begin(), experiment.rates.end());
  return experiment;
}

ExperimentFindings read_sweep(const Experiment& experiment, const LanguageOptions& options) {
  return read_findings(sweep_of(with_all_rates(experiment, options.rates)),
                       sweep_scale(language_scale(options.scale)), options.hardware, options.out,
                       Unfinished::left_out);
}

fs::path measure_path(const std::string& out, const std::string& run) {
  return fs::path(out) / "diagnostics" / (run + ".json");
}

// The missing parts of a run's file in diagnostics/. An earlier command may have requested other
// parts.
std::vector<std::string> parts_to_measure(const fs::path& path,
                                          const std::vector<std::string>& asked) {
  std::vector<std::string> held;
  if (fs::exists(path)) held = json_in(path).value("parts", held);
  std::vector<std::string> missing;
  for (const auto& part : asked)
    if (std::ranges::count(held, part) == 0 && std::ranges::count(missing, part) == 0)
      missing.push_back(part);
  return missing;
}

void add_measures(const fs::path& path, const nlohmann::json& measured) {
  auto all = fs::exists(path) ? json_in(path) : nlohmann::json::object();
  auto parts = all.value("parts", std::vector<std::string>());
  for (const auto& part : measured.at("parts")) parts.push_back(part.get<std::string>());
  all.merge_patch(measured);
  all["parts"] = parts;
  write_file_atomically(path, all.dump(1) + "\n");
}

// One for each finished run, with the measurements that any experiment requests.
std::vector<Job> measure_jobs(const std::vector<Experiment>& experiments, const Scale& scale,
                              const LanguageOptions& options, DatasetShelf& shelf,
                              const std::function<bool()>& stop) {
  std::map<std::string, std::pair<TaskConfig, std::vector<std::string>>> wanted;
  for (const auto& experiment : experiments)
    for (const auto& run : planned_runs({experiment}, scale, options.hardware)) {
      auto& [task, what] = wanted[run.name];
      task = run.config.task;
      what.insert(what.end(), experiment.measures.begin(), experiment.measures.end());
      if (task.name == "text") what.push_back("text");
    }
  std::vector<Job> jobs;
  for (const auto& [run, asked] : wanted) {
    const auto path = measure_path(options.out, run);
    const auto folder = (fs::path(options.out) / "runs" / run).string();
    const auto missing = parts_to_measure(path, asked.second);
    if (missing.empty()) continue;
    // Trained on another machine, and copied without weights.
    if (fs::exists(fs::path(folder) / "result.json") &&
        !fs::exists(fs::path(folder) / "best.safetensors"))
      continue;
    jobs.push_back({"diagnostics of " + run, 1,
                    [path, folder, task = asked.first, missing, device = options.hardware.device,
                     stop, run, &shelf](const std::function<void(int64_t)>&) {
                      if (read_result(folder).at("diverged").get<bool>()) return;
                      add_measures(path,
                                   measure_run(folder, missing, *shelf.get(task), device, [&] {
                                     if (stop && stop())
                                       throw RunStopped("measuring " + run + " was stopped");
                                   }));
                    },
                    /*after=*/run});
  }
  return jobs;
}

// Folders, and the number of scored ids of their validation text; 0: all.
std::set<std::pair<std::string, int64_t>> texts_of(const std::vector<Experiment>& experiments) {
  std::set<std::pair<std::string, int64_t>> texts;
  for (const auto& experiment : experiments)
    for (const auto& column : experiment.columns)
      if (column.config.value("task", "") == "text")
        texts.emplace(column.config.at("data").get<std::string>(),
                      column.config.value("validation_ids", int64_t{0}));
  return texts;
}

// Reports missing texts now rather than after hours of training.
void find_texts(const std::vector<Experiment>& experiments) {
  for (const auto& [folder, scored] : texts_of(experiments))
    if (folder.ends_with(kShuffled))
      make_shuffled_text(folder.substr(0, folder.size() - kShuffled.size()));
    else
      require(fs::is_directory(folder), "reproduce",
              "{} is not there: prepare it with geores data text, or omit its experiments "
              "with --only",
              folder);
}

// The name of an n-gram table's text, with `scored` if it is limited.
std::string name_of_ngrams(const std::string& folder, int64_t scored) {
  const auto name = fs::path(folder).filename().string();
  return scored > 0 ? fmt::format("{}, first {} ids", name, scored) : name;
}

// N-gram losses on the scored text; kept in OUT, since the text may be missing when the next report
// is written.
std::vector<double> ngrams_of(const std::string& folder, int64_t scored, const std::string& out) {
  constexpr size_t many = 5'000'000;  // above this number of ids, longer histories take too long
  const auto path = fs::path(out) / "ngrams" / (name_of_ngrams(folder, scored) + ".json");
  if (fs::exists(path)) return json_in(path).get<std::vector<double>>();
  if (!fs::exists(fs::path(folder) / "data.json")) return {};
  const auto text = PreparedText::open(folder);
  const auto train = text.split("train").ids();
  auto validation = text.split("val").ids();
  if (scored > 0)
    validation = validation.first(std::min(validation.size(), static_cast<size_t>(scored)));
  const auto losses =
      ngram_losses(train, validation, text.vocabulary(), train.size() > many ? 3 : 6);
  write_file_atomically(path, nlohmann::json(losses).dump() + "\n");
  return losses;
}

// Of the sweeps' runs and of those that come after them.
void tell_time(std::vector<PlannedRun> runs, const std::vector<Experiment>& experiments,
               const Scale& scale, const LanguageOptions& options, DatasetShelf& shelf,
               const ReproduceListener& listener) {
  std::vector<Experiment> at_a_rate;
  for (const auto& experiment : experiments) at_a_rate.push_back(at_first_rate(experiment));
  for (const auto& run : planned_runs(at_a_rate, scale, options.hardware))
    if (std::ranges::find(runs, run.name, &PlannedRun::name) == runs.end()) runs.push_back(run);
  const auto missing = runs_to_time(runs, (fs::path(options.out) / "runs").string(), shelf);
  if (missing.empty()) return;
  listener.notice(estimate_time(missing, 0, options.jobs, listener.stop).text());
}

bool train_and_measure(const LanguagePaper& paper, const LanguageOptions& options,
                       const LanguageOptions& with_earlier, const ReproduceListener& listener) {
  auto experiments = wanted_experiments(paper, options);
  require(!experiments.empty(), "reproduce", "nothing of {} was asked for", options.paper);
  find_texts(experiments);
  auto scale = language_scale(options.scale);
  scale.chosen_seeds = options.seeds;
  DatasetShelf shelf(options.cache);
  const auto jobs_of = [&](const std::vector<PlannedRun>& planned) {
    return training_jobs(planned, (fs::path(options.out) / "runs").string(), shelf,
                         {.progress = {}, .notice = listener.notice, .stop = listener.stop});
  };
  try {
    std::vector<Experiment> sweeps;
    for (const auto& experiment : experiments)
      if (!experiment.rates.empty()) sweeps.push_back(sweep_of(experiment));
    if (listener.notice)
      tell_time(planned_runs(sweeps, sweep_scale(scale), options.hardware), experiments, scale,
                options, shelf, listener);
    run_jobs(jobs_of(planned_runs(sweeps, sweep_scale(scale), options.hardware)), options.jobs,
             listener.progress);
    for (auto& experiment : experiments) {
      if (experiment.rates.empty()) continue;
      experiment = with_all_rates(experiment, paper.experiment(experiment.name).rates);
      experiment = with_all_rates(experiment, with_earlier.rates);
      experiment = settled(experiment, read_sweep(experiment, with_earlier));
    }
    auto jobs = jobs_of(planned_runs(experiments, scale, options.hardware));
    for (auto& job : measure_jobs(experiments, scale, options, shelf, listener.stop))
      jobs.push_back(std::move(job));
    run_jobs(jobs, options.jobs, listener.progress);
  } catch (const RunStopped&) {
    return false;
  }
  return true;
}

bool has_runs(const ExperimentFindings& findings) {
  for (const auto& [column, arms] : findings.cells)
    for (const auto& [arm, cell] : arms)
      if (!cell.runs.empty()) return true;
  return false;
}

LanguageFindings read_all(const LanguagePaper& paper, const LanguageOptions& options) {
  LanguageFindings all{
      .paper = paper, .scale = options.scale, .hardware = options.hardware, .folder = options.out};
  for (const auto& one : paper.experiments) {
    auto experiment = with_all_rates(one, options.rates);
    if (!experiment.rates.empty()) {
      all.sweeps.push_back(read_sweep(experiment, options));
      experiment = settled(experiment, all.sweeps.back());
    }
    auto findings = read_findings(experiment, scale_of_report(options), options.hardware,
                                  options.out, Unfinished::left_out);
    if (!has_runs(findings)) continue;
    for (const auto& [column, arms] : findings.cells)
      for (const auto& [arm, cell] : arms)
        for (const auto& run : cell.runs) {
          const auto name = fs::path(run).filename().string();
          if (const auto path = measure_path(options.out, name); fs::exists(path))
            all.measured[name] = json_in(path);
        }
    all.experiments.push_back(std::move(findings));
  }
  for (const auto& entry : fs::directory_iterator(fs::path(options.out) / "runs"))
    if (fs::exists(entry.path() / "result.json")) {
      const auto result = read_result(entry.path().string());
      all.train_seconds += result.at("seconds").get<double>();
      if (result.contains("machine"))  // older runs do not have it
        all.made_with.insert(fmt::format("{}, {}", result["machine"].get<std::string>(),
                                         result.value("program", "")));
    }
  auto with_losses = paper.experiments;
  std::erase_if(with_losses, [](const Experiment& one) { return one.for_speed; });
  for (const auto& [folder, scored] : texts_of(with_losses))
    if (!folder.ends_with(kShuffled) && (options.report_only || options.hardware.device == "cpu"))
      if (const auto losses = ngrams_of(folder, scored, options.out); !losses.empty())
        all.ngrams[name_of_ngrams(folder, scored)] = losses;
  return all;
}

}  // namespace

const ExperimentFindings* LanguageFindings::find(const std::string& name) const {
  const auto found =
      std::ranges::find(experiments, name, [](const auto& one) { return one.experiment.name; });
  return found == experiments.end() ? nullptr : &*found;
}

const ExperimentFindings* LanguageFindings::sweep(const std::string& name) const {
  const auto wanted = name + "_rates";
  const auto found =
      std::ranges::find(sweeps, wanted, [](const auto& one) { return one.experiment.name; });
  return found == sweeps.end() ? nullptr : &*found;
}

const nlohmann::json* LanguageFindings::measured_on(const std::string& run_folder) const {
  const auto found = measured.find(fs::path(run_folder).filename().string());
  return found == measured.end() ? nullptr : &found->second;
}

nlohmann::json LanguageFindings::to_json() const {
  nlohmann::json object = {{"paper", paper.name},
                           {"scale", scale},
                           {"device", hardware.device},
                           {"precision", hardware.precision},
                           {"train_seconds", train_seconds},
                           {"made_with", made_with},
                           {"experiments", nlohmann::json::array()},
                           {"sweeps", nlohmann::json::array()},
                           {"verdicts", nlohmann::json::array()},
                           {"ngrams", ngrams},
                           {"measured", measured}};
  for (const auto& one : experiments) object["experiments"].push_back(geores::to_json(one));
  for (const auto& one : sweeps)
    if (has_runs(one)) object["sweeps"].push_back(geores::to_json(one));
  for (const auto& one : language_verdicts(*this))
    object["verdicts"].push_back({{"claim", one.claim},
                                  {"numbers", one.numbers},
                                  {"test", one.test},
                                  {"control", one.control},
                                  {"verdict", one.verdict}});
  return object;
}

std::optional<LanguageFindings> reproduce_language(const LanguageOptions& options,
                                                   const ReproduceListener& listener) {
  return reproduce_language(language_paper(options.paper, options.scale, options.data), options,
                            listener);
}

std::optional<LanguageFindings> reproduce_language(const LanguagePaper& given,
                                                   const LanguageOptions& asked,
                                                   const ReproduceListener& listener) {
  auto paper = given;
  auto options = asked;
  for (const auto& name : options.only) paper.experiment(name);  // throws for an unknown one
  check_seeds(options.seeds);
  const auto path = fs::path(options.out) / "reproduction.json";
  if (options.report_only) {
    require(fs::exists(path), "reproduce", "{} holds no reproduction to report on", options.out);
    const auto found = json_in(path);
    options.hardware = {found.value("device", "cpu"), found.value("precision", "fp32")};
    options.steps = found.value("steps", int64_t{0});
  } else {
    check_hardware(options.hardware);
  }
  if (options.steps != 0) paper.set_steps(options.steps);
  if (options.hardware.device == "cuda" && !options.report_only) {
    expect_cuda_streams(2 * options.jobs);
    set_float32_products(precision_from(options.hardware.precision));
  }
  std::error_code error;
  fs::create_directories(options.out, error);
  require(!error, "reproduce", "cannot create {}: {}", options.out, error.message());
  const FolderLock lock(options.out);
  claim_report_folder(kReproduction, options.out, identity_of(options), kFolders);
  const auto with_earlier = with_earlier_ones(options);
  if (!options.report_only && !train_and_measure(paper, options, with_earlier, listener))
    return std::nullopt;
  auto findings = read_all(paper, with_earlier);
  write_report(findings.folder, make_language_report(findings), findings.to_json());
  return findings;
}

}  // namespace geores
