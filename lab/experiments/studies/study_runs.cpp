#include <cmath>
#include <filesystem>
#include <map>
#include <memory>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"
#include "geores/model/recursive/recursive_kind.h"
#include "geores/puzzles/arc/recipe.h"
#include "geores/puzzles/files/dataset_writer.h"
#include "geores/puzzles/scoring/plain_scores.h"
#include "geores/train/puzzles/puzzle_batch.h"
#include "geores/train/puzzles/puzzle_evaluation.h"
#include "geores/train/run/finished_run.h"
#include "lab/diagnostics/recursion_report.h"
#include "lab/experiments/report.h"
#include "lab/experiments/studies/study_report.h"
#include "lab/experiments/time/time_estimate.h"

namespace geores {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kDataSeed = 42;

void make_sudokus(const StudyData& data, const std::string& folder) {
  const auto all = puzzles::generate_sudokus(
      {.size = data.size, .rounds = data.rounds, .clues = data.clues, .seed = kDataSeed},
      data.train, data.test);
  puzzles::write_sudokus(folder, data.size, all, data.variants, puzzles::Rows::made,
                         {{"seed", kDataSeed}, {"rounds", data.rounds}, {"clues", data.clues}});
}

void require_tasks(const StudyData& data, const std::string& tasks) {
  require(data.kind != "arc" || !tasks.empty(), "study",
          "a study on ARC needs --tasks DIR with its JSON files");
}

void make_arc(const StudyData& data, const std::string& folder, const std::string& tasks) {
  std::vector<puzzles::Subset> subsets;
  for (const auto* name : {"training", "evaluation", "concept"})
    subsets.push_back({.tasks = puzzles::read_subset(tasks, name),
                       .tests_held_out = std::string(name) == "evaluation"});
  const auto recipe = puzzles::build_arc(
      subsets,
      {.variants = data.variants, .seed = static_cast<uint32_t>(kDataSeed), .canvas = data.size});
  puzzles::write_arc(folder, "arc", recipe, puzzles::Rows::made,
                     {{"variants", data.variants}, {"seed", kDataSeed}, {"canvas", data.size}});
}

// One folder is one study: runs of another study, or with other changes, would be taken for its
// own.
constexpr ReportKind kStudy{"study", "study.json", "a study"};

struct StudyRun {
  const StudyArm* arm;
  std::string path;
  TrainConfig config;
};

json read_json_file(const fs::path& path) {
  return parse_json(read_text_file(path), path.string());
}

bool finished(const StudyRun& run) { return fs::exists(fs::path(run.path) / "result.json"); }

// The ARC score without the puzzle's own identifier.
void evaluate_controls(const StudyRun& run, const puzzles::Dataset& data) {
  const auto file = fs::path(run.path) / "controls.json";
  if (!data.info().is_arc() || fs::exists(file)) return;
  const auto loaded = load_puzzle_run(run.path, run.config.device);
  PuzzleSolver solver(recursive_model(loaded), run.config.batch, run.config.precision);
  json controls;
  for (const auto* identifiers : {"blank", "shuffled"})
    controls[identifiers] =
        evaluate_puzzles(data, solver, run.config.batch,
                         {.votes = run.config.votes, .identifiers = identifiers, .seed = 1});
  write_file_atomically(file, controls.dump(2) + "\n");
}

// Measurements of the mixers in a pass over the first test puzzles.
void describe_mixing(const StudyRun& run, const puzzles::Dataset& data) {
  const auto file = fs::path(run.path) / "recursion.json";
  if (fs::exists(file)) return;
  const auto loaded = load_puzzle_run(run.path, run.config.device);
  const auto batch = data.test().batch(
      puzzles::evaluation_rows(data.test(), 0, std::min<int64_t>(8, data.test().rows())));
  const auto report = describe_recursion(recursive_model(loaded), to_tensors(batch).x);
  write_file_atomically(file, (report ? report->to_json() : json()).dump(2) + "\n");
}

std::vector<Job> study_jobs(const std::vector<StudyRun>& runs, const Dataset& dataset,
                            const ReproduceListener& outer) {
  const auto& data = *dataset.puzzle_set;
  std::vector<Job> jobs;
  for (const auto& run : runs) {
    if (finished(run) &&
        (!data.info().is_arc() || fs::exists(fs::path(run.path) / "controls.json")))
      continue;
    jobs.push_back(
        {.name = fs::path(run.path).filename().string(),
         .size = run.config.steps,
         .work = [&run, &data, &dataset, &outer](const std::function<void(int64_t)>& progress) {
           Listener listener;
           listener.progress = [&](const Progress& p) { progress(p.step); };
           listener.notice = outer.notice;
           listener.stop = outer.stop;
           const RunFolder folder{.path = run.path, .resume = can_resume(run.path)};
           if (!finished(run) && train(run.config, dataset, folder, listener).interrupted)
             throw RunStopped(run.path + " was stopped");
           evaluate_controls(run, data);
           describe_mixing(run, data);
         }});
  }
  return jobs;
}

// All numbers of an object under names with dots: {"by_rating": {"0": {"exact": 1}}} has
// by_rating.0.exact.
void collect_numbers(const json& object, const std::string& prefix,
                     std::map<std::string, std::vector<double>>& to) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_number()) to[prefix + key].push_back(value.get<double>());
    if (value.is_object()) collect_numbers(value, prefix + key + ".", to);
  }
}

json described(const std::vector<double>& values) {
  const auto sample = sample_of(values);
  return {{"values", values},
          {"mean", sample.mean},
          {"deviation", std::isfinite(sample.deviation) ? json(sample.deviation) : json()}};
}

// Exact answers and correct cells on the test puzzles, and on the training rows that halted since
// the previous line. The last point of the tests covers all of them, earlier ones `eval_rows`.
json curves_of(const StudyRun& run, const json& left) {
  json curves = {{"seed", run.config.seed}, {"test", json::array()}, {"train", json::array()}};
  const auto add = [&](const char* part, const json& step, double seconds, const json& from) {
    if (from.contains("exact") && from["exact"].is_number() && from.contains("cells"))
      curves[part].push_back({{"step", step},
                              {"seconds", seconds},
                              {"exact", from["exact"]},
                              {"cells", from["cells"]}});
  };
  double seconds = 0;
  for (const auto& line : read_metrics(run.path)) {
    seconds = line.value("seconds", seconds);
    if (line.contains("evaluation"))
      add("test", line["step"], seconds, line["evaluation"]);
    else
      add("train", line["step"], seconds, line);
  }
  if (!left["diverged"]) add("test", left["steps"], left["seconds"], left["evaluation"]);
  return curves;
}

// Over the finished runs.
json arm_results(const std::vector<StudyRun>& runs, const StudyArm& arm) {
  std::map<std::string, std::vector<double>> numbers;
  json result = {{"label", arm.label}, {"diverged", 0}};
  for (const auto& run : runs) {
    if (run.arm != &arm || !finished(run)) continue;
    const auto left = read_json_file(fs::path(run.path) / "result.json");
    result["curves"].push_back(curves_of(run, left));
    result["parameters"] = left["parameters"];
    result["mlp_hidden"] = recursive_options(run.config.model).mlp_hidden;
    numbers["step_seconds"].push_back(left["step_seconds"]);
    if (left["diverged"]) {
      result["diverged"] = result["diverged"].get<int>() + 1;
      continue;
    }
    collect_numbers(left["evaluation"], "", numbers);
    if (const auto file = fs::path(run.path) / "controls.json"; fs::exists(file))
      collect_numbers(read_json_file(file), "", numbers);
    if (const auto file = fs::path(run.path) / "recursion.json"; fs::exists(file))
      if (auto mixing = read_json_file(file); !mixing.is_null())
        result["mixing"].push_back(std::move(mixing));
  }
  for (const auto& [name, values] : numbers) result["numbers"][name] = described(values);
  return result;
}

json differences(const json& arms, const std::string& number) {
  auto list = json::array();
  for (const auto& [name, arm] : arms.items())
    for (const auto& [base, other] : arms.items()) {
      if (!is_compared(name, base)) continue;
      const auto a = sample_of_arm(other, number), b = sample_of_arm(arm, number);
      if (!a.known() || !b.known()) continue;
      const auto test = welch_test(a, b);
      list.push_back({{"arm", name},
                      {"against", base},
                      {"number", number},
                      {"difference", b.mean - a.mean},
                      {"t", test.known() ? json(test.t) : json()},
                      {"p", test.known() ? json(test.p) : json()}});
    }
  return list;
}

}  // namespace

void make_study_data(const StudyData& data, const std::string& folder,
                     const std::string& arc_tasks) {
  if (fs::exists(folder)) return;
  require_tasks(data, arc_tasks);
  if (data.kind == "sudoku") return make_sudokus(data, folder);
  if (data.kind == "arc") return make_arc(data, folder, arc_tasks);
  require(data.kind == "maze", "study", "unknown kind of puzzles '{}'", data.kind);
  const auto set =
      puzzles::generate_mazes({.size = data.size, .seed = kDataSeed}, data.train, data.test);
  puzzles::write_mazes(folder, data.size, set, false, {{"seed", kDataSeed}});
}

std::optional<json> run_study(const Study& study, const StudyOptions& options,
                              const ReproduceListener& listener) {
  const fs::path out = options.out;
  const auto folder = (out / "data").string();
  // All checks come before anything is written.
  check_seeds(options.seeds);
  check_hardware(options.hardware);
  const auto arms = study.chosen(options.arms);
  std::vector<StudyRun> runs;
  for (const auto* arm : arms)
    for (const auto seed : options.seeds)
      runs.push_back({.arm = arm,
                      .path = (out / "runs" / fmt::format("{}-{}", arm->name, seed)).string(),
                      .config = study_config(study, *arm, seed, options, folder)});
  if (!fs::exists(folder)) require_tasks(study.data, options.arc_tasks);
  require(study.data.kind == "arc" || options.arc_tasks.empty(), "study",
          "{} makes its own puzzles: --tasks is for a study on ARC", study.name);

  claim_report_folder(kStudy, out.string(),
                      {{"study", study.name},
                       {"scale", study.scale},
                       {"changes", options.changes},
                       {"precision", options.hardware.precision}},
                      {"runs", "figures"});
  make_study_data(study.data, folder, options.arc_tasks);
  const auto dataset = std::make_shared<const Dataset>(
      load_dataset({.name = "puzzles", .options = {{"data", folder}}}));
  const auto& data = *dataset->puzzle_set;
  std::vector<RunToTime> missing;
  for (const auto& run : runs)
    if (!finished(run)) missing.push_back(run_to_time(run.config, dataset));
  if (listener.notice && !missing.empty())
    listener.notice(estimate_time(missing, 0, options.jobs, listener.stop).text());
  bool stopped = false;
  try {
    run_jobs(study_jobs(runs, *dataset, listener), options.jobs, listener.progress);
  } catch (const RunStopped&) {
    stopped = true;
  }

  json results = {{"study", study.name}, {"seeds", options.seeds}, {"arms", json::object()}};
  for (const auto* arm : arms)
    if (auto found = arm_results(runs, *arm); found.contains("parameters"))
      results["arms"][arm->name] = std::move(found);
  results["plain"] = json::array();
  for (const auto& plain : puzzles::plain_scores(data))
    results["plain"].push_back(
        {{"name", plain.name}, {"label", plain.label}, {"results", plain.results}});
  results["differences"] = differences(results["arms"], "exact");
  write_report(out.string(), make_study_report(study, results), results);
  if (stopped) return std::nullopt;
  return results;
}

}  // namespace geores
