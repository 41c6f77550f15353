#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>

#include "cli/commands.h"
#include "cli/puzzles/eval_puzzles.h"
#include "cli/text/eval_text.h"
#include "geores/base/error.h"
#include "geores/data/baselines.h"
#include "geores/train/evaluation.h"
#include "geores/train/run/run_folder.h"

namespace geores::cli {
namespace {

// "validation, positions 5 to 8" and the mean error of these: powers of two, because the first positions differ most.
void print_by_position(const std::vector<double>& errors) {
  const auto count = errors.size();
  for (size_t begin = 0, end = 1; begin < count; begin = end, end *= 2) {
    end = std::min(end, count);
    const auto mean = std::accumulate(errors.begin() + static_cast<std::ptrdiff_t>(begin),
                                      errors.begin() + static_cast<std::ptrdiff_t>(end), 0.0) /
                      static_cast<double>(end - begin);
    const auto where = end - begin == 1 ? fmt::format("position {}", end)
                                        : fmt::format("positions {} to {}", begin + 1, end);
    fmt::print("{:<34} {:.4e}\n", "  " + where, mean);
  }
}

struct EvalFlags {
  std::string cache;
  PuzzleEvaluationFlags puzzles;
  EvalTextFlags text;  // of every task: run and json
};

// Flags that mean nothing for this kind of run are refused, not ignored.
void refuse_flags(const CLI::App& command, std::initializer_list<const char*> flags,
                  const std::string& meant_for, const std::string& run, const std::string& kind) {
  for (const auto* flag : flags)
    require(command.count(flag) == 0, "eval", "{} is for runs on {}; {} is one on {}", flag,
            meant_for, run, kind);
}

void evaluate(const EvalFlags& flags, const CLI::App& command) {
  const auto run = load_run(flags.text.run, flags.cache);
  const auto& task = run.config.task.name;
  if (run.config.method() == Method::puzzles) {
    refuse_flags(command, {"--split", "--stride", "--ngrams"}, "text", flags.text.run, task);
    return evaluate_puzzle_run(run, flags.text.run, flags.puzzles, flags.text.json);
  }
  refuse_flags(command, {"--rows", "--votes", "--identifiers", "--submission", "--batch"},
               "puzzles", flags.text.run, task);
  if (task == "text") {
    auto text = flags.text;
    text.data = flags.puzzles.data;  // one flag for both
    text.device = flags.puzzles.device;
    return evaluate_text(run, text);
  }
  refuse_flags(command, {"--data", "--device"}, "text and puzzles", flags.text.run, task);
  refuse_flags(command, {"--split", "--stride", "--ngrams"}, "text", flags.text.run, task);
  const auto data = load_dataset(run.config.task, flags.cache);
  const auto validation = exact_loss(*run.model, data.validation_x, data.validation_y);
  const auto training =
      exact_loss(*run.model, data.train_x.slice(0, 0, 1000), data.train_y.slice(0, 0, 1000));
  const auto by_position =
      data.tokens() ? std::vector<double>()
                    : errors_by_position(*run.model, data.validation_x, data.validation_y);
  const auto baselines = data.tokens() ? std::vector<Baseline>() : trivial_baselines(data);
  if (flags.text.json) {
    nlohmann::json object = {{"run", flags.text.run},      {"step", run.step},
                             {"validation", validation},   {"train", training},
                             {"by_position", by_position}, {"baselines", nlohmann::json::object()}};
    for (const auto& baseline : baselines) object["baselines"][baseline.name] = baseline.mse;
    fmt::print("{}\n", object.dump(2));
    return;
  }
  fmt::print("{} on {}, weights of step {}\n", run.config.model.label(), run.config.task.name,
             run.step);
  fmt::print("{:<34} {:.4e}\n", "validation, whole set", validation);
  if (!by_position.empty()) print_by_position(by_position);
  fmt::print("{:<34} {:.4e}\n", "training, first 1000 sequences", training);
  for (const auto& baseline : baselines)
    fmt::print("{:<34} {:.4e}{}\n", "no model: " + baseline.name, baseline.mse,
               baseline.mse < validation ? "  better than the model" : "");
}

}  // namespace

void add_eval(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<EvalFlags>();
  auto* command = app.add_subcommand(
      "eval",
      "Loss of a run's best weights over the whole validation set.\n"
      "Next to it stand predictors that need no model. A run on puzzles: exact answers, cells, by "
      "difficulty, both kinds of pass@k.\n"
      "Examples:\n"
      "  geores eval --run runs/gyro-edelta\n"
      "  geores eval --run runs/text --data data/other --split test --stride 64\n"
      "  geores eval --run runs/arc --votes 1000 --submission submission.json\n"
      "  geores eval --run runs/arc --identifiers blank");
  command->add_option("--run", flags->text.run, "folder of the run")->required();
  command->add_option("--cache", flags->cache, "folder for generated data");
  command->add_flag("--json", flags->text.json, "machine-readable result");
  add_puzzle_flags(*command, flags->puzzles);
  command->add_option("--split", flags->text.split, "text: train, val or test [val]");
  command->add_option("--stride", flags->text.stride,
                      "text: ids between windows; less than the context gives more of it");
  command->add_option("--ngrams", flags->text.ngrams, "text: longest table of counts [6]")
      ->check(CLI::Range(0, 8));
  command->callback([flags, command, &exit_code] {
    evaluate(*flags, *command);
    exit_code = 0;
  });
}

}  // namespace geores::cli
