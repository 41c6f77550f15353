// Failures that must not damage a run's files: a new run that does not work replaces an old one, a
// bad checkpoint replaces a good one, two processes write to one folder.
#include "geores/train/run/run_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <sstream>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/formats/safetensors.h"
#include "geores/testing/testing.h"
#include "geores/train/divergence.h"
#include "geores/train/run/starting_folder.h"
#include "geores/train/trainer.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class RunFolders : public testing::Test {
 protected:
  RunFolders() {
    torch::manual_seed(3);
    data_.task = "test";
    data_.train_x = torch::randn({8, 5, 4});
    data_.train_y = data_.train_x.flip(2).contiguous();
    data_.validation_x = torch::randn({4, 5, 4});
    data_.validation_y = data_.validation_x.flip(2).contiguous();
    config_.model.options = {{"connection", "additive"}, {"layers", 1}, {"width", 8}, {"heads", 2}};
    config_.steps = 12;
    config_.batch = 2;
    config_.warmup = 1;
    config_.lr = config_.min_lr = 1e-2;
    config_.eval_interval = 5;
    config_.eval_batches = 2;
    config_.final_eval_batches = 2;
    config_.log_interval = 5;
    config_.checkpoint_interval = 4;
  }

  std::string folder(const char* name = "run") const { return (root_ / name).string(); }
  fs::path file(const char* name) const { return root_ / "run" / name; }
  bool is_there(const char* name) const { return fs::exists(file(name)); }

  TrainResult run(const RunFolder& where, Listener listener = {},
                  DeviceLoopOn loop = DeviceLoopOn::gpu) {
    listener.notice = [this](const std::string& text) { notices_ += text + "\n"; };
    return train(config_, data_, where, listener, built_in(), loop);
  }
  // Stops as Ctrl-C does after this many steps.
  TrainResult run_until(int64_t step, RunFolder where) {
    int64_t asked = -1;
    Listener listener;
    listener.stop = [&asked, step] { return ++asked == step; };
    return run(where, listener);
  }

  std::map<std::string, std::vector<std::byte>> contents() const {
    std::map<std::string, std::vector<std::byte>> all;
    for (const auto& entry : fs::recursive_directory_iterator(root_ / "run"))
      if (entry.is_regular_file()) all[entry.path().string()] = read_file(entry.path());
    return all;
  }

  int64_t step_of(const char* checkpoint) const {
    const auto saved = Safetensors::load(file(checkpoint));
    int64_t step = 0;
    std::memcpy(&step, saved.at("position").bytes.data(), sizeof step);
    return step;
  }

  const TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
  Dataset data_;
  TrainConfig config_;
  std::string notices_;
};

TEST_F(RunFolders, AnOldRunStaysWholeUntilTheNewOneHasACheckpoint) {
  run({.path = folder()});
  for (const auto* name :
       {"mixers.safetensors", "diagnostics.jsonl", "tokenizer.json", "tokenizer.model"})
    write_file_atomically(file(name), "of the old run");
  write_file_atomically(file("notes.txt"), "a person's");
  const auto before = contents();

  // The new run is refused, stopped before its first step, fails in it, or diverges in it.
  config_.model.options["heads"] = 3;
  EXPECT_NE(refusal([&] { run({.path = folder(), .overwrite = true}); }), "");
  EXPECT_EQ(contents(), before);
  config_.model.options["heads"] = 4;
  run_until(0, {.path = folder(), .overwrite = true});
  EXPECT_EQ(contents(), before);
  struct Failure {};
  Listener failing;
  failing.progress = [](const Progress&) { throw Failure(); };
  EXPECT_THROW(run({.path = folder(), .overwrite = true}, failing), Failure);
  EXPECT_EQ(contents(), before);
  const auto good = data_.train_y;
  data_.train_y = torch::full_like(good, kInfinity);
  Listener writing;
  writing.evaluated = [](int64_t, Model&, const fs::path& where) {
    write_file_atomically(where / "diagnostics.jsonl", "of the new run");
  };
  EXPECT_TRUE(run({.path = folder(), .overwrite = true}, writing).diverged);
  EXPECT_EQ(contents(), before);
  EXPECT_NE(notices_.find("the run that was in " + folder() + " is still there"), std::string::npos)
      << notices_;
  data_.train_y = good;

  // After one step the new run has replaced the old one; files that no run writes stay.
  EXPECT_TRUE(run_until(1, {.path = folder(), .overwrite = true}).interrupted);
  EXPECT_EQ(read_run_config(folder()).model.options["heads"], 4);
  for (const auto* name : {"result.json", "mixers.safetensors", "diagnostics.jsonl",
                           "tokenizer.json", "tokenizer.model", "checkpoint.previous.safetensors",
                           ".starting", ".replacing", "in_use.lock"})
    EXPECT_FALSE(is_there(name)) << name;
  EXPECT_TRUE(is_there("notes.txt"));
  EXPECT_EQ(step_of("checkpoint.safetensors"), 1);
  EXPECT_FALSE(run({.path = folder(), .resume = true}).interrupted);
}

TEST_F(RunFolders, AFailedFirstAttemptDoesNotRefuseTheCorrectedCommand) {
  const auto good = data_.train_y;
  data_.train_y = torch::full_like(good, kInfinity);
  const auto result = run({.path = folder()});
  EXPECT_TRUE(result.diverged);
  EXPECT_TRUE(is_there("result.json")) << "it is a result";
  EXPECT_NE(notices_.find("the loss is inf at step 0: stopped; there is no checkpoint yet"),
            std::string::npos)
      << notices_;
  data_.train_y = good;
  EXPECT_FALSE(run({.path = folder()}).diverged);
  EXPECT_NE(refusal([&] { run({.path = folder()}); }).find("--overwrite"), std::string::npos);
}

TEST_F(RunFolders, DiagnosticsOfTheFirstStepsMoveIntoTheFolderWithTheRun) {
  Listener writing;
  writing.evaluated = [](int64_t step, Model&, const fs::path& where) {
    write_file_atomically(where / fmt::format("diagnostics-{}", step), "x");
  };
  run({.path = folder()}, writing);
  for (const int64_t step : {0, 5, 10, 12})
    EXPECT_TRUE(fs::exists(file("") / fmt::format("diagnostics-{}", step))) << step;
}

TEST_F(RunFolders, AFolderOfDataIsNotMadeOneOfARun) {
  for (const auto* name : {"data.json", "train.bin", "val.bin", "geores.json"}) {
    const auto data = root_ / name;
    fs::create_directories(data);
    write_file_atomically(data / name, "{}");
    write_file_atomically(data / "tokenizer.json", "of the text");
    for (const bool overwrite : {false, true})
      EXPECT_EQ(refusal([&] { run({.path = data.string(), .overwrite = overwrite}); }),
                fmt::format("[train] {} holds {}: it is a folder of data; give the run one of its "
                            "own",
                            data.string(), name));
    EXPECT_EQ(read_text_file(data / "tokenizer.json"), "of the text");
    EXPECT_FALSE(fs::exists(data / "config.json"));
  }
}

TEST_F(RunFolders, AValidationLossThatIsNotFiniteAtTheEndIsADivergence) {
  data_.validation_y = torch::full_like(data_.validation_y, kInfinity);
  const auto result = run({.path = folder()});
  EXPECT_TRUE(result.diverged);
  EXPECT_EQ(result.steps, 12);
  EXPECT_TRUE(std::isnan(result.exact_validation));
  EXPECT_NE(notices_.find("the loss over the validation set is inf after the last step"),
            std::string::npos)
      << notices_;
  EXPECT_NE(read_text_file(file("result.json")).find("\"diverged\": true"), std::string::npos);
}

TEST_F(RunFolders, AReplacementThatWasKilledIsFinished) {
  run({.path = folder("whole")});
  config_.lr = 2e-2;
  run({.path = folder()});  // the old run
  config_.lr = 1e-2;
  // The state of a process that was killed after the new run's checkpoint, while it moved files.
  for (const bool moving : {false, true}) {
    const auto staged = moving ? root_ / "run" / ".replacing" : starting_folder(folder());
    fs::create_directories(staged);
    for (const auto* name : {"config.json", "model.json", "metrics.jsonl", "checkpoint.safetensors",
                             "best.safetensors"})
      fs::copy_file(root_ / "whole" / name, staged / name);
    if (moving)
      for (const auto* name : {"config.json", "checkpoint.safetensors"}) fs::remove(file(name));
    EXPECT_TRUE(holds_run(folder()));
    EXPECT_EQ(read_run_config(folder()).lr, 1e-2);
    EXPECT_FALSE(is_being_replaced(folder()));
    run({.path = folder(), .resume = true});
    EXPECT_EQ(read_file(file("best.safetensors")), read_file(root_ / "whole/best.safetensors"));
  }
  // A new run without a checkpoint is dropped.
  fs::create_directories(starting_folder(folder()));
  write_file_atomically(starting_folder(folder()) / "config.json", "{}");
  EXPECT_TRUE(holds_run(folder()));
  EXPECT_FALSE(is_being_replaced(folder()));
  EXPECT_EQ(read_run_config(folder()).lr, 1e-2);
}

TEST_F(RunFolders, WithoutItsCheckpointsARunIsNotBegunAgainSilently) {
  run({.path = folder()});
  for (const auto* name : {"checkpoint.safetensors", "checkpoint.previous.safetensors"})
    fs::remove(file(name));
  const auto metrics = read_file(file("metrics.jsonl")), result = read_file(file("result.json"));
  EXPECT_TRUE(holds_run(folder()));
  EXPECT_FALSE(can_resume(folder()));
  const auto line = refusal([&] { train(config_, data_, {.path = folder(), .resume = true}); });
  EXPECT_NE(line.find("has no checkpoint to resume from"), std::string::npos) << line;
  EXPECT_EQ(read_file(file("metrics.jsonl")), metrics);
  EXPECT_EQ(read_file(file("result.json")), result);
  run({.path = folder()});  // restarts where that is requested
  EXPECT_TRUE(can_resume(folder()));
}

TEST_F(RunFolders, TwoWritersAreRefused) {
  std::string second;
  Listener listener;
  listener.progress = [&](const Progress&) {
    if (second.empty())
      second = refusal([&] { train(config_, data_, {.path = folder(), .resume = true}); });
  };
  run({.path = folder()}, listener);
  EXPECT_NE(second.find("is in use by process " + std::to_string(::getpid())), std::string::npos)
      << second;
}

TEST_F(RunFolders, TemporaryFilesOfAKilledRunAreRemovedByTheNext) {
  run_until(6, {.path = folder()});
  write_file_atomically(file(".geores-999999999-3.tmp"), "half a checkpoint");
  run({.path = folder(), .resume = true});
  EXPECT_FALSE(is_there(".geores-999999999-3.tmp"));
}

TEST_F(RunFolders, ADamagedCheckpointNeverReplacesAGoodOne) {
  run_until(9, {.path = folder()});
  ASSERT_EQ(step_of("checkpoint.previous.safetensors"), 8);
  write_file_atomically(file("checkpoint.safetensors"), "damaged");
  run_until(2, {.path = folder(), .resume = true});
  EXPECT_NE(notices_.find("continuing from the checkpoint before it, at step 8"), std::string::npos)
      << notices_;
  EXPECT_EQ(step_of("checkpoint.safetensors"), 10);
  EXPECT_EQ(step_of("checkpoint.previous.safetensors"), 8) << "not the damaged one";
}

TEST_F(RunFolders, WhatIsNotFiniteDoesNotEnterACheckpoint) {
  // The weights overflow in a step whose loss and gradient are finite, just before a checkpoint.
  config_.lr = config_.min_lr = 1e39;
  config_.log_interval = 100;
  config_.checkpoint_interval = 2;
  for (const auto loop : {DeviceLoopOn::gpu, DeviceLoopOn::every_device}) {
    notices_.clear();
    EXPECT_TRUE(run({.path = folder(), .overwrite = true}, {}, loop).diverged);
    EXPECT_EQ(
        notices_,
        "the weights are not finite after step 1: stopped; the checkpoint of step 1 is kept\n");
    EXPECT_EQ(step_of("checkpoint.safetensors"), 1);
  }
}

TEST_F(RunFolders, OnADeviceUncheckedStepsAreCheckedBeforeACheckpoint) {
  // One sequence is poisoned: the step that draws it is not logged.
  config_.log_interval = 100;
  config_.checkpoint_interval = 3;
  data_.train_y = data_.train_y.clone();
  data_.train_y[2].fill_(kInfinity);
  const auto host = run({.path = folder("host")});
  ASSERT_TRUE(host.diverged);
  ASSERT_GT(host.steps, 1);
  const auto expected = notices_;
  notices_.clear();
  const auto device = run({.path = folder()}, {}, DeviceLoopOn::every_device);
  EXPECT_TRUE(device.diverged);
  EXPECT_EQ(device.steps, host.steps) << "the step at which it happened, not the one that was read";
  EXPECT_EQ(notices_, expected);
  EXPECT_LE(step_of("checkpoint.safetensors"), host.steps);
}

TEST_F(RunFolders, DivergenceNamesItsCauseAndTheCheckpointThatIsThere) {
  run_until(5, {.path = folder()});
  data_.train_y = torch::full_like(data_.train_y, 1e30f);  // its square is beyond float32
  const auto result = run({.path = folder(), .resume = true});
  EXPECT_TRUE(result.diverged);
  EXPECT_EQ(notices_, "the loss is inf at step 5: stopped; the checkpoint of step 5 is kept\n");
  EXPECT_EQ(cause_of_divergence(7, 1.5, kInfinity),
            "the gradient's norm is inf at step 7 (loss 1.5)");
  EXPECT_EQ(divergence_notice("no reason", 0), "no reason: stopped; there is no checkpoint yet");
}

TEST_F(RunFolders, ALostOrDamagedBestDoesNotBlockAResume) {
  for (const bool lost : {true, false}) {
    run_until(7, {.path = folder(), .overwrite = true});
    notices_.clear();
    if (lost)
      fs::remove(file("best.safetensors"));
    else
      fs::resize_file(file("best.safetensors"), fs::file_size(file("best.safetensors")) / 2);
    const auto result = run({.path = folder(), .resume = true});
    EXPECT_NE(notices_.find("are lost: those of the evaluations to come count"), std::string::npos)
        << notices_;
    EXPECT_GE(result.best_step, 10);
    EXPECT_EQ(load_run(folder()).step, result.best_step);
    EXPECT_TRUE(std::isfinite(result.exact_best));
  }
}

TEST_F(RunFolders, TheLastWeightsAreEvaluatedToo) {
  config_.eval_interval = 1000;
  const auto result = run({.path = folder()});
  EXPECT_EQ(result.best_step, config_.steps) << "not the weights it began with";
  EXPECT_EQ(load_run(folder()).step, config_.steps);
  EXPECT_EQ(result.exact_best, result.exact_validation);
  std::istringstream lines(read_text_file(file("metrics.jsonl")));
  int64_t last = -1;
  for (std::string line; std::getline(lines, line);)
    if (const auto object = nlohmann::json::parse(line); object.contains("validation"))
      last = object["step"];
  EXPECT_EQ(last, config_.steps);
}

TEST_F(RunFolders, StoppedAndResumedIsBitForBitTheUninterruptedRun) {
  run({.path = folder("whole")});
  EXPECT_EQ(run_until(3, {.path = folder()}).steps, 3);
  EXPECT_FALSE(is_there("result.json"));
  EXPECT_EQ(run_until(4, {.path = folder(), .resume = true}).steps, 7);
  run({.path = folder(), .resume = true});
  for (const auto* name : {"checkpoint.safetensors", "best.safetensors"})
    EXPECT_EQ(read_file(root_ / "whole" / name), read_file(file(name))) << name;
}

TEST_F(RunFolders, AWrongStepInBestIsNamed) {
  run({.path = folder()});
  auto text = to_text(read_file(file("best.safetensors")));
  const std::string before = "\"step\":\"";
  const auto at = text.find(before);
  ASSERT_NE(at, text.npos);
  text[at + before.size()] = 'x';
  // As another program might write it: the checksum would be refused first.
  const std::string key = "geores_xxh3";
  ASSERT_NE(text.find(key), text.npos);
  text.replace(text.find(key), key.size(), "other_xxh3_");
  write_file_atomically(file("best.safetensors"), text);
  const auto refused = refusal([&] { load_run(folder()); });
  EXPECT_NE(refused.find("metadata 'step' is not a number of steps: 'x"), std::string::npos)
      << refused;
}

}  // namespace
}  // namespace geores
