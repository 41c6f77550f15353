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
#include "geores/train/trainer.h"

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

const Dataset& data() {
  static const auto all = load_dataset({.name = "puzzles", .options = {{"data", sudokus()}}});
  return all;
}

const puzzles::Dataset& puzzle_set() { return *data().puzzle_set; }

TrainConfig puzzle_config(const std::string& mixer = "none") {
  TrainConfig config("puzzles");
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
    for (const auto* time : {"seconds", "tokens_per_second"}) object.erase(time);
    text += object.dump() + "\n";
  }
  return text;
}

struct Stopped {};

// Stops in the middle of a run, as a signal does.
void train_until(const TrainConfig& config, const std::string& path, int64_t step, bool resume) {
  Listener listener;
  listener.progress = [&](const Progress& progress) {
    if (progress.step > step) throw Stopped();
  };
  EXPECT_THROW(train(config, data(), {.path = path, .resume = resume}, listener), Stopped);
}

TEST(PuzzleTrainer, StoppedAndResumedItIsBitForBitTheRunThatWasNot) {
  for (const auto* mixer : {"none", "grassmann"}) {
    const TemporaryFolder folder;
    const auto whole = (folder.path() / "whole").string(),
               parts = (folder.path() / "parts").string();
    const auto config = puzzle_config(mixer);
    train(config, data(), {.path = whole});
    train_until(config, parts, 2, false);  // before the first checkpoint
    train_until(config, parts, 8, true);   // after the one of step 5
    train(config, data(), {.path = parts, .resume = true});
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
    train(puzzle_config(), data(), {.path = run.string(), .resume = true});
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
    return to_tensor(Safetensors::load(file(name)).at("position"))[0].item<int64_t>();
  };
  std::string notices;
  int64_t asked = 0, stop_at = -1;
  Listener listener;
  listener.notice = [&](const std::string& text) { notices += text + "\n"; };
  listener.stop = [&] { return asked++ == stop_at; };
  const auto train_on = [&](const TrainConfig& config, RunFolder where, int64_t stop = -1) {
    asked = 0;
    stop_at = stop;
    where.path = path;
    return train(config, data(), where, listener);
  };
  auto config = puzzle_config();
  config.steps = 7;

  // A run that is stopped before its first step leaves nothing; after it, a checkpoint.
  EXPECT_TRUE(train_on(config, {}, 0).interrupted);
  EXPECT_FALSE(holds_run(path));
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
  EXPECT_EQ(read_run_config(path).seed, 3);
  EXPECT_NE(refusal([&] { train_on(config, {}); }).find("--overwrite"), std::string::npos);

  // A damaged checkpoint never replaces a good one; two writers are refused.
  write_file_atomically(file("checkpoint.safetensors"), "damaged");
  std::string second;
  listener.progress = [&](const Progress&) {
    second = refusal([&] { train(config, data(), {.path = path, .resume = true}); });
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
  const auto result = train(config, data(), {}, listener);
  EXPECT_TRUE(result.diverged);
  EXPECT_EQ(result.steps, 1);
  EXPECT_TRUE(result.evaluation.is_null());
  EXPECT_NE(notices.find("the loss over the test set is"), std::string::npos) << notices;
}

TEST(PuzzleTrainer, MicroBatchesAreTheWholeBatch) {
  auto config = puzzle_config("cayley");
  config.steps = 4;
  const auto whole = train(config, data(), {});
  config.micro_batch = 2;
  const auto parts = train(config, data(), {});
  EXPECT_NEAR(whole.training["lm_loss"].get<double>(), parts.training["lm_loss"].get<double>(),
              1e-4);
  EXPECT_NEAR(whole.evaluation["lm_loss"].get<double>(), parts.evaluation["lm_loss"].get<double>(),
              1e-3);
}

TEST(PuzzleTrainer, EvaluatesAndAnswersWithTheAveragedWeights) {
  const TemporaryFolder folder;
  const auto path = (folder.path() / "run").string();
  const auto result = train(puzzle_config(), data(), {.path = path});
  EXPECT_EQ(result.evaluation["rows"].get<int64_t>(), puzzle_set().test().rows());
  EXPECT_TRUE(result.evaluation.contains("by_rating"));
  EXPECT_GT(result.evaluation["lm_loss"].get<double>(), 0);
  EXPECT_EQ(result.evaluation["halted_after"].size(), 4u);

  const auto run = load_puzzle_run(path);
  EXPECT_EQ(run.step, 12);
  PuzzleSolver solver(recursive_model(run), 8, "fp32");
  const auto again = evaluate_puzzles(puzzle_set(), solver, 8, {});
  EXPECT_NEAR(again["lm_loss"].get<double>(), result.evaluation["lm_loss"].get<double>(), 1e-12);

  // Another batch size changes nothing: blank rows do not count.
  PuzzleSolver other(recursive_model(run), 3, "fp32");
  EXPECT_NEAR(evaluate_puzzles(puzzle_set(), other, 3, {})["lm_loss"].get<double>(),
              again["lm_loss"].get<double>(), 1e-6);

  // A test puzzle from a text file has the answer that the evaluation gave.
  const auto rows = std::vector<int64_t>{4, 4, 4, 4, 4, 4, 4, 4};
  const auto batch = puzzle_set().test().batch(rows);
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
  train(config, data(), {.path = path});
  auto other = config;
  other.lr = 0.5;
  EXPECT_EQ(
      refusal([&] { train(other, data(), {.path = path, .resume = true}); }),
      "[train] cannot resume " + path + " with another 'lr': the run has 0.01, asked for 0.5");
  EXPECT_EQ(refusal([&] { train(config, data(), {.path = path}); }),
            "[train] " + path +
                " already holds a run; continue it with --resume or replace it with --overwrite");
  other = config;
  other.micro_batch = 3;
  EXPECT_EQ(refusal([&] { train(other, data(), {}); }),
            "[train] batch 8 is not divisible by micro_batch 3");
  EXPECT_EQ(refusal([&] {
              other.read({{"mixr", "cayley"}}, "x");
            }),
            "[x] unknown key 'mixr', did you mean 'mixer'?");
  EXPECT_EQ(refusal([&] {
              other.read({{"min_lr", 0.1}}, "x");
            }),
            "[x] 'min_lr' is not an option of task puzzles");
  EXPECT_EQ(refusal([&] {
              TrainConfig().read({{"ema", 0.9}}, "x");
            }),
            "[x] 'ema' is not an option of task gyroscope");
  EXPECT_EQ(refusal([&] { load_dataset(TrainConfig("puzzles").task); }),
            "[train] task puzzles needs --data DIR, a folder that geores data made");
  other = config;
  other.steps = 0;
  EXPECT_EQ(refusal([&] { train(other, data(), {}); }),
            "[train] task puzzles needs --steps or --epochs");
  other = config;
  other.model = {.kind = "transformer"};
  EXPECT_EQ(refusal([&] { train(other, data(), {}); }),
            "[train] task puzzles trains model recursive, not transformer");
}

// A config.json, model.json and checkpoint as they were before runs on puzzles were runs like
// others.
TEST(PuzzleTrainer, ARunOfAnEarlierVersionGoesOn) {
  const TemporaryFolder folder;
  const auto whole = (folder.path() / "whole").string(), old = (folder.path() / "old").string();
  train(puzzle_config(), data(), {.path = whole});
  train_until(puzzle_config(), old, 8, false);
  const auto edit = [&](const char* name, const std::function<void(nlohmann::json&)>& change) {
    const auto path = fs::path(old) / name;
    auto object = nlohmann::json::parse(read_text_file(path));
    change(object);
    write_file_atomically(path, object.dump(2) + "\n");
  };
  edit("model.json", [](auto& object) { object.erase("origin"); });
  const auto set_print = [&](const std::string& print) {
    edit("config.json", [&](auto& object) { object["data_fingerprint"] = print; });
  };
  const auto path = fs::path(old) / "checkpoint.safetensors";
  const auto found = Safetensors::load(path);
  SafetensorsWriter writer;
  for (const auto& key : found.names())
    if (key != "position") add_tensor(writer, key, to_tensor(found.at(key)));
  add_tensor(writer, "step", to_tensor(found.at("position")).slice(0, 0, 1));
  writer.save(path);

  set_print("of another set");
  EXPECT_EQ(refusal([&] { train(puzzle_config(), data(), {.path = old, .resume = true}); }),
            "[train] cannot resume " + old +
                ": the data's 'data_fingerprint' was \"of another set\" and now is \"" +
                puzzle_set().fingerprint() + "\"");
  set_print(puzzle_set().fingerprint());
  EXPECT_EQ(load_puzzle_run(old).step, 5);
  train(puzzle_config(), data(), {.path = old, .resume = true});
  EXPECT_EQ(read_file(path), read_file(fs::path(whole) / "checkpoint.safetensors"));
}

// On a GPU steps are recorded, with batches that are made on the host.
TEST(PuzzleTrainer, TheDeviceLoopTakesTheSameSteps) {
  for (const auto* mixer : {"cayley", "grassmann"}) {
    const TemporaryFolder folder;
    const auto host = (folder.path() / "host").string(),
               device = (folder.path() / "device").string();
    auto config = puzzle_config(mixer);
    config.micro_batch = 4;
    train(config, data(), {.path = host});
    train(config, data(), {.path = device}, {}, built_in(), DeviceLoopOn::every_device);
    const auto at = [](const std::string& run) {
      return Safetensors::load(fs::path(run) / "checkpoint.safetensors");
    };
    const auto one = at(host), other = at(device);
    for (const auto& name : one.names())
      EXPECT_TRUE(torch::equal(to_tensor(one.at(name)), to_tensor(other.at(name)))) << name;
    EXPECT_EQ(metrics_without_time(host), metrics_without_time(device));
  }
}

TEST(PuzzleConfig, SchedulesAreTheirDefinitions) {
  TrainConfig config("puzzles");
  config.steps = 100;
  config.warmup = 10;
  config.lr = 1;
  config.table_lr = 3;
  const auto rate = [&](int64_t t) { return learning_rates(config, t - 1).parameters; };
  EXPECT_DOUBLE_EQ(rate(5), 0.5);
  EXPECT_DOUBLE_EQ(learning_rates(config, 4).table, 1.5);
  EXPECT_DOUBLE_EQ(rate(10), 1);
  EXPECT_DOUBLE_EQ(rate(100), 1);
  config.schedule = "step";
  EXPECT_DOUBLE_EQ(rate(5), 0.5);
  EXPECT_DOUBLE_EQ(rate(79), 1);
  EXPECT_DOUBLE_EQ(rate(80), 0.316);
  EXPECT_DOUBLE_EQ(rate(90), 0.1);
  config.schedule = "cosine";
  config.min_ratio = 0.2;
  EXPECT_NEAR(rate(55), 0.6, 1e-12);
  EXPECT_DOUBLE_EQ(rate(100), 0.2);
}

}  // namespace
}  // namespace geores
