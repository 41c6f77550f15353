#include "cli/puzzles/eval_puzzles.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/terminal/progress_bar.h"
#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/ops/run/device_named.h"

namespace geores::cli {

void add_puzzle_flags(CLI::App& command, PuzzleEvaluationFlags& flags) {
  const auto* group = "Runs on puzzles";
  command.add_option("--data", flags.data, "text and puzzles: another data set than the run's");
  command.add_option("--rows", flags.options.rows, "first rows of the test set; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->group(group);
  command.add_option("--votes", flags.options.votes, "variants of a test task; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->group(group);
  command
      .add_option("--identifiers", flags.options.identifiers,
                  "kept, blank or shuffled: the score without the puzzle's own identifier")
      ->check(CLI::IsMember(identifier_controls()))
      ->group(group);
  command.add_option("--submission", flags.submission, "ARC: write the answers to this file")
      ->group(group);
  command.add_option("--batch", flags.batch, "rows at a time; 0: as in training")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->group(group);
  command.add_option("--device", flags.device, "text and puzzles: cpu or cuda [cpu]")
      ->check(CLI::IsMember({"cpu", "cuda"}));
}

void evaluate_puzzle_run(const LoadedRun& run, const std::string& path,
                         const PuzzleEvaluationFlags& flags, bool json) {
  run.model->to(device_named(flags.device, "puzzles"));
  auto task = run.config.task.completed();
  if (!flags.data.empty()) task.options["data"] = flags.data;
  const auto dataset = load_dataset(task);
  const auto& data = *dataset.puzzle_set;
  const auto folder = task.options["data"].get<std::string>();
  require(!flags.data.empty() || dataset.origin.facts == run.origin, "eval",
          "{} is another data set than the one that {} was trained on; --data {} evaluates it all "
          "the same",
          folder, path, folder);
  const auto input = run.model->input();
  require(input.length == data.info().cells() && input.vocabulary == data.info().vocabulary, "eval",
          "{} has puzzles of {} cells and {} tokens, {} was trained on {} and {}", folder,
          data.info().cells(), data.info().vocabulary, path, input.length, input.vocabulary);
  if (!flags.submission.empty()) {
    require(data.info().is_arc(), "eval", "--submission is for ARC; {} is a {} data set", folder,
            data.info().kind);
    const auto parent = std::filesystem::absolute(flags.submission).parent_path();
    require(std::filesystem::is_directory(parent), "eval", "there is no folder {} for --submission",
            parent.string());
  }
  const auto batch = flags.batch > 0 ? flags.batch : run.config.batch;
  PuzzleSolver solver(recursive_model(run), batch, run.config.precision);
  auto options = flags.options;
  options.submission = !flags.submission.empty();
  nlohmann::json results;
  {
    ProgressBar bar("evaluating");
    results = evaluate_puzzles(data, solver, batch, options,
                               [&](int64_t done, int64_t all) { bar.show(done, all, 0, ""); });
  }
  if (options.submission) {
    write_file_atomically(flags.submission, results["submission"].dump() + "\n");
    results.erase("submission");
  }
  if (json) {
    fmt::print("{}\n",
               nlohmann::json{{"run", path}, {"step", run.step}, {"results", results}}.dump(2));
    return;
  }
  fmt::print("mixer {} on {}, averaged weights of step {}\n", recursive_model(run).options().mixer,
             data.info().kind, run.step);
  for (const auto& [key, value] : results.items()) fmt::print("{:<34} {}\n", key, value.dump());
}

}  // namespace geores::cli
