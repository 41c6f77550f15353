#include "geores/train/puzzles/puzzle_trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "geores/base/file.h"
#include "geores/puzzles/files/dataset_writer.h"
#include "geores/storage/state_file.h"
#include "geores/testing/testing.h"
#include "geores/train/puzzles/puzzle_answers.h"
#include "geores/train/puzzles/puzzle_batch.h"
#include "geores/train/puzzles/puzzle_evaluation.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

// Sudokus of 4 × 4, made once for all tests.
const std::string& sudokus() {
  static const TemporaryFolder folder;
  static const auto path = [] {
    const auto at = (folder.path() / "sudoku4").string();
    const auto set =
        puzzles::generate_sudokus({.size = 4, .rounds = {0}, .clues = 8, .seed = 1}, 20, 10);
    puzzles::write_sudokus(at, 4, set, 3, puzzles::Rows::made, {{"seed", 1}});
    return at;
  }();
  return path;
}

const puzzles::Dataset& data() {
  static const auto all = puzzles::Dataset::open(sudokus());
  return all;
}

PuzzleConfig puzzle_config(const std::string& mixer = "none") {
  PuzzleConfig config;
  config.read(
      {{"data", sudokus()},  {"mixer", mixer},   {"layout", "expand"}, {"width", 16},
       {"heads", 2},         {"streams", 2},     {"layers", 1},        {"prefix", 1},
       {"mlp_multiple", 8},  {"h_cycles", 2},    {"l_cycles", 1},      {"act_steps", 4},
       {"explore", 0.3},     {"batch", 8},       {"steps", 12},        {"warmup", 2},
       {"lr", 0.01},         {"table_lr", 0.01}, {"log_interval", 3},  {"checkpoint_interval", 5},
       {"eval_interval", 6}, {"eval_rows", 8},   {"ema", 0.9},         {"seed", 3}},
      "test");
  return config;
}

std::string metrics_without_time(const std::string& path) {
  std::istringstream lines(read_text_file(fs::path(path) / "metrics.jsonl"));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    auto object = nlohmann::json::parse(line);
    object.erase("seconds");
    text += object.dump() + "\n";
  }
  return text;
}

struct Stopped {};

// Stops in the middle of a run, as a signal does.
void train_until(const PuzzleConfig& config, const std::string& path, int64_t step, bool resume) {
  Listener listener;
  listener.progress = [&](const Progress& progress) {
    if (progress.step > step) throw Stopped();
  };
  EXPECT_THROW(train_puzzles(config, data(), {.path = path, .resume = resume}, listener), Stopped);
}

TEST(PuzzleTrainer, StoppedAndResumedItIsBitForBitTheRunThatWasNot) {
  for (const auto* mixer : {"none", "grassmann"}) {
    const TemporaryFolder folder;
    const auto whole = (folder.path() / "whole").string(),
               parts = (folder.path() / "parts").string();
    const auto config = puzzle_config(mixer);
    train_puzzles(config, data(), {.path = whole});
    train_until(config, parts, 2, false);  // before the first checkpoint
    train_until(config, parts, 8, true);   // after the one of step 5
    train_puzzles(config, data(), {.path = parts, .resume = true});
    EXPECT_EQ(read_file(fs::path(whole) / "checkpoint.safetensors"),
              read_file(fs::path(parts) / "checkpoint.safetensors"));
    EXPECT_EQ(metrics_without_time(whole), metrics_without_time(parts));

    // The previous checkpoint is in the middle of episodes of four passes.
    const auto steps = to_tensor(
        Safetensors::load(fs::path(whole) / "checkpoint.previous.safetensors").at("carry/steps"));
    EXPECT_GT(steps.max().item<int64_t>(), 0);
    EXPECT_LT(steps.min().item<int64_t>(), 4);
  }
}

// States whose values fit into bfloat16 are stored in it.
TEST(PuzzleTrainer, ARunGoesOnFromStatesInBfloat16AsFromTheSameInFloat32) {
  const TemporaryFolder folder;
  const auto stopped = folder.path() / "stopped";
  train_until(puzzle_config(), stopped.string(), 8, false);
  const auto found = Safetensors::load(stopped / "checkpoint.safetensors");
  const auto resumed_with = [&](const char* name, bool half) {
    const auto run = folder.path() / name;
    fs::copy(stopped, run);
    SafetensorsWriter writer;
    for (const auto& key : found.names()) {
      auto values = to_tensor(found.at(key));
      const auto state = key == "carry/answer" || key == "carry/scratch";
      if (state) values = values.to(torch::kBFloat16);
      add_tensor(writer, key, state && !half ? values.to(torch::kFloat32) : values);
    }
    writer.save(run / "checkpoint.safetensors");
    train_puzzles(puzzle_config(), data(), {.path = run.string(), .resume = true});
    return read_file(run / "checkpoint.safetensors");
  };
  EXPECT_EQ(resumed_with("half", true), resumed_with("whole", false));
}

// The cases of train/run/run_folder_test.cpp for other runs.
TEST(PuzzleTrainer, ItsFilesAreAsSafeAsThoseOfOtherRuns) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "run").string();
  const auto file = [&](const char* name) { return fs::path(path) / name; };
  const auto step_of = [&](const char* name) {
    return to_tensor(Safetensors::load(file(name)).at("step")).item<int64_t>();
  };
  std::string notices;
  int64_t asked = 0, stop_at = -1;
  Listener listener;
  listener.notice = [&](const std::string& text) { notices += text + "\n"; };
  listener.stop = [&] { return asked++ == stop_at; };
  const auto train_on = [&](const PuzzleConfig& config, RunFolder where, int64_t stop = -1) {
    asked = 0;
    stop_at = stop;
    where.path = path;
    return train_puzzles(config, data(), where, listener);
  };
  auto config = puzzle_config();
  config.steps = 7;

  // A run that is stopped before its first step leaves nothing; after it, a checkpoint.
  EXPECT_TRUE(train_on(config, {}, 0).interrupted);
  EXPECT_FALSE(is_puzzle_run(path));
  EXPECT_EQ(train_on(config, {}, 6).steps, 6);
  EXPECT_EQ(step_of("checkpoint.safetensors"), 6);
  EXPECT_EQ(step_of("checkpoint.previous.safetensors"), 5);
  EXPECT_FALSE(fs::exists(file("result.json")));

  // The old run stays until the new one has a checkpoint.
  const auto before = read_file(file("checkpoint.safetensors"));
  auto other = config;
  other.seed = 4;
  EXPECT_TRUE(train_on(other, {.overwrite = true}, 0).interrupted);
  EXPECT_EQ(read_file(file("checkpoint.safetensors")), before);
  EXPECT_EQ(read_puzzle_config(path).seed, 3);
  EXPECT_NE(refusal([&] { train_on(config, {}); }).find("--overwrite"), std::string::npos);

  // A damaged checkpoint never replaces a good one; two writers are refused.
  write_file_atomically(file("checkpoint.safetensors"), "damaged");
  std::string second;
  listener.progress = [&](const Progress&) {
    second = refusal([&] { train_puzzles(config, data(), {.path = path, .resume = true}); });
  };
  EXPECT_FALSE(train_on(config, {.resume = true}).interrupted);
  EXPECT_NE(notices.find("continuing from the checkpoint before it, at step 5"), std::string::npos)
      << notices;
  EXPECT_EQ(step_of("checkpoint.previous.safetensors"), 5) << "not the damaged one";
  EXPECT_NE(second.find("is in use by process"), std::string::npos) << second;

  // Without any checkpoint no run restarts silently.
  for (const auto* name : {"checkpoint.safetensors", "checkpoint.previous.safetensors"})
    fs::rename(file(name), folder.path() / name);
  EXPECT_NE(refusal([&] { train_on(config, {.resume = true}); }).find("no checkpoint to resume"),
            std::string::npos);
  for (const auto* name : {"checkpoint.safetensors", "checkpoint.previous.safetensors"})
    fs::rename(folder.path() / name, file(name));

  // Weights that are not finite do not enter a checkpoint.
  notices.clear();
  other.lr = 1e39;
  other.log_interval = 100;
  other.checkpoint_interval = 2;
  EXPECT_TRUE(train_on(other, {.overwrite = true}).diverged);
  EXPECT_NE(notices.find("the weights are not finite after step"), std::string::npos) << notices;
}

TEST(PuzzleTrainer, ATestLossThatIsNotFiniteAtTheEndIsADivergence) {
  auto config = puzzle_config();
  config.steps = 1;
  config.warmup = 0;
  config.lr = 1e30;  // the weights stay finite
  std::string notices;
  Listener listener;
  listener.notice = [&](const std::string& text) { notices += text + "\n"; };
  const auto result = train_puzzles(config, data(), {}, listener);
  EXPECT_TRUE(result.diverged);
  EXPECT_EQ(result.steps, 1);
  EXPECT_TRUE(result.evaluation.is_null());
  EXPECT_NE(notices.find("the loss over the test set is"), std::string::npos) << notices;
}

TEST(PuzzleTrainer, MicroBatchesAreTheWholeBatch) {
  auto config = puzzle_config("cayley");
  config.steps = 4;
  const auto whole = train_puzzles(config, data(), {});
  config.micro_batch = 2;
  const auto parts = train_puzzles(config, data(), {});
  EXPECT_NEAR(whole.training["lm_loss"].get<double>(), parts.training["lm_loss"].get<double>(),
              1e-4);
  EXPECT_NEAR(whole.evaluation["lm_loss"].get<double>(), parts.evaluation["lm_loss"].get<double>(),
              1e-3);
}

TEST(PuzzleTrainer, EvaluatesAndAnswersWithTheAveragedWeights) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "run").string();
  const auto result = train_puzzles(puzzle_config(), data(), {.path = path});
  EXPECT_EQ(result.evaluation["rows"].get<int64_t>(), data().test().rows());
  EXPECT_TRUE(result.evaluation.contains("by_rating"));
  EXPECT_GT(result.evaluation["lm_loss"].get<double>(), 0);
  EXPECT_EQ(result.evaluation["halted_after"].size(), 4u);

  const auto run = load_puzzle_run(path);
  EXPECT_EQ(run.step, 12);
  PuzzleSolver solver(*run.model, 8, "fp32");
  const auto again = evaluate_puzzles(data(), solver, 8, {});
  EXPECT_NEAR(again["lm_loss"].get<double>(), result.evaluation["lm_loss"].get<double>(), 1e-12);

  // Another batch size changes nothing: blank rows do not count.
  PuzzleSolver other(*run.model, 3, "fp32");
  EXPECT_NEAR(evaluate_puzzles(data(), other, 3, {})["lm_loss"].get<double>(),
              again["lm_loss"].get<double>(), 1e-6);

  // A test puzzle from a text file has the answer that the evaluation gave.
  const auto rows = std::vector<int64_t>{4, 4, 4, 4, 4, 4, 4, 4};
  const auto batch = data().test().batch(rows);
  std::string text;
  for (int64_t i = 0; i < 16; ++i) {
    const auto token = batch.inputs[size_t(i)];
    text += token == 1 ? "." : std::to_string(token - 1);
    if (i % 4 == 3) text += "\n";
  }
  const auto file = (folder.path() / "puzzle.txt").string();
  std::ofstream(file) << text;
  const auto answers = solve_puzzle_file(path, {.file = file});
  const auto solved = solver.solve(batch);
  const auto wanted = solved.predictions[-1][0].contiguous();
  const std::vector<int32_t> tokens(wanted.data_ptr<int32_t>(), wanted.data_ptr<int32_t>() + 16);
  EXPECT_EQ(answers.solvings.at(0).steps.back(), tokens);
  EXPECT_EQ(answers.solvings.at(0).steps.size(), 4u);
  EXPECT_NE(answers.page().find("<html"), std::string::npos);
  EXPECT_FALSE(answers.drawn(false).empty());

  std::ofstream(file) << "12x4";
  EXPECT_EQ(refusal([&] { solve_puzzle_file(path, {.file = file}); }),
            "[puzzle.txt] 'x' is no digit from 1 to 4 and no blank");
  std::ofstream(file) << "1234";
  EXPECT_EQ(refusal([&] { solve_puzzle_file(path, {.file = file}); }),
            "[puzzle.txt] a sudoku of this run has 16 cells, the file has 4");
}

TEST(PuzzleTrainer, RefusesWhatDoesNotFit) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "run").string();
  auto config = puzzle_config();
  config.steps = 1;
  train_puzzles(config, data(), {.path = path});
  auto other = config;
  other.lr = 0.5;
  EXPECT_EQ(
      refusal([&] { train_puzzles(other, data(), {.path = path, .resume = true}); }),
      "[train] cannot resume " + path + " with another 'lr': the run has 0.01, asked for 0.5");
  EXPECT_EQ(refusal([&] { train_puzzles(config, data(), {.path = path}); }),
            "[train] " + path +
                " already holds a run; continue it with --resume or replace it with --overwrite");
  other = config;
  other.micro_batch = 3;
  EXPECT_EQ(refusal([&] { train_puzzles(other, data(), {}); }),
            "[train] batch 8 is not divisible by micro_batch 3");
  other.read({{"micro_batch", 0}}, "x");
  EXPECT_EQ(refusal([&] {
              other.read({{"mixr", "cayley"}}, "x");
            }),
            "[x] unknown option 'mixr', did you mean 'mixer'?");
  EXPECT_EQ(refusal([&] { PuzzleConfig().check(); }),
            "[train] task puzzles needs --data DIR, a folder that geores data made");
}

TEST(PuzzleConfig, SchedulesAreTheirDefinitions) {
  PuzzleConfig config;
  config.steps = 100;
  config.warmup = 10;
  EXPECT_DOUBLE_EQ(config.rate_factor(5), 0.5);
  EXPECT_DOUBLE_EQ(config.rate_factor(10), 1);
  EXPECT_DOUBLE_EQ(config.rate_factor(100), 1);
  config.schedule = "step";
  EXPECT_DOUBLE_EQ(config.rate_factor(5), 0.5);
  EXPECT_DOUBLE_EQ(config.rate_factor(79), 1);
  EXPECT_DOUBLE_EQ(config.rate_factor(80), 0.316);
  EXPECT_DOUBLE_EQ(config.rate_factor(90), 0.1);
  config.schedule = "cosine";
  config.min_ratio = 0.2;
  EXPECT_NEAR(config.rate_factor(55), 0.6, 1e-12);
  EXPECT_DOUBLE_EQ(config.rate_factor(100), 0.2);
}

}  // namespace
}  // namespace geores
