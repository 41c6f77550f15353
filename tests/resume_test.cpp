// A run that is killed at any moment, or whose disk fills, continues as if nothing had happened.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "geores/base/file.h"
#include "geores/testing/testing.h"
#include "tests/program.h"

namespace geores {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class Resume : public testing::Test {
 protected:
  static constexpr const char* kRun =
      "--task gyroscope --train-sequences 40 --validation-sequences 8 --length 17 --model edelta "
      "--layers 2 --width 16 --heads 2 --batch 8 --steps 700 --warmup 20 --eval-interval 50 "
      "--eval-batches 2 --final-eval-batches 3 --log-interval 5 --checkpoint-interval 7";

  // Starts the program with its output in a file; `before` runs in the child.
  template <class Before>
  pid_t start(const std::string& arguments, Before&& before) const {
    const auto path = root_ / "output";
    const auto file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const auto child = start_program(arguments, {.output = file, .before = before});
    close(file);
    return child;
  }

  int run(const std::string& arguments) const {
    return wait_for(start(arguments, [] {}));
  }

  std::string output() const { return read_text_file(root_ / "output"); }
  std::string folder(const std::string& name) const { return (root_ / name).string(); }

  void expect_equal_runs(const std::string& a, const std::string& b) const {
    for (const auto* file : {"checkpoint.safetensors", "best.safetensors", "config.json"})
      EXPECT_EQ(read_file(root_ / a / file), read_file(root_ / b / file)) << file;
    EXPECT_EQ(timeless(a, "metrics.jsonl"), timeless(b, "metrics.jsonl"));
    EXPECT_EQ(without_time(nlohmann::json::parse(read_text_file(root_ / a / "result.json"))),
              without_time(nlohmann::json::parse(read_text_file(root_ / b / "result.json"))));
  }

 private:
  // Equal runs may differ in their speed alone.
  static nlohmann::json without_time(nlohmann::json object) {
    object.erase("tokens_per_second");
    object.erase("seconds");
    return object;
  }

  std::string timeless(const std::string& name, const char* file) const {
    std::istringstream lines(read_text_file(root_ / name / file));
    std::string text;
    for (std::string line; std::getline(lines, line);)
      text += without_time(nlohmann::json::parse(line)).dump() + "\n";
    return text;
  }

 protected:
  const TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
};

class ResumeKilled : public Resume {
 protected:
  // Kills a run at random moments, continues it each time, and compares it with the run that was not
  // killed.
  void expect_unharmed(const std::string& flags, int attempts);
};

void ResumeKilled::expect_unharmed(const std::string& flags, int attempts) {
  // How long the program takes to start depends on the machine.
  const auto begin = std::chrono::steady_clock::now();
  const auto whole = start(fmt::format("train {} --out {}", flags, folder("whole")), [] {});
  while (!fs::exists(root_ / "whole" / "config.json")) std::this_thread::sleep_for(1ms);
  const auto start_up = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  ASSERT_EQ(wait_for(whole), 0) << output();

  std::mt19937 random(1);
  const auto first = static_cast<int>(start_up.count() / 2);
  std::uniform_int_distribution<int> moment(first, first + 400);  // milliseconds
  const auto go_on = [&] {
    return fs::exists(root_ / "killed" / "config.json")
               ? fmt::format("train --resume {}", folder("killed"))
               : fmt::format("train {} --out {}", flags, folder("killed"));
  };
  int kills = 0, finished = 0;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const auto child = start(go_on(), [] {});
    std::this_thread::sleep_for(moment(random) * 1ms);
    kill(child, SIGKILL);
    const auto code = wait_for(child);
    if (code == -SIGKILL)
      ++kills;
    else
      ++finished;
    ASSERT_TRUE(code == -SIGKILL || code == 0) << output();
  }
  RecordProperty("kills", kills);
  EXPECT_GE(kills, attempts / 2) << "the run is too short to be killed; it finished " << finished
                                 << " times";
  ASSERT_EQ(run(go_on()), 0) << output();
  expect_equal_runs("whole", "killed");
}

TEST_F(ResumeKilled, AtTwentyRandomMomentsItIsBitForBitTheUninterruptedRun) {
  expect_unharmed(kRun, 20);
}

TEST_F(ResumeKilled, OnTextWithDropoutAndEpochsItIsBitForBitTheUninterruptedRun) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += fmt::format("line {} of a text\n", i * i % 91);
  write_file_atomically(root_ / "a.txt", text);
  ASSERT_EQ(run(fmt::format("data text --input {} --tokenizer chars --out {}", folder("a.txt"),
                            folder("data"))),
            0)
      << output();
  expect_unharmed(
      fmt::format("--task text --data {} --context 16 --sampling epochs --dropout 0.2 --model "
                  "additive --layers 2 --width 16 --heads 2 --batch 8 --steps 1200 --warmup 20 "
                  "--eval-interval 50 --eval-batches 2 --final-eval-batches 3 --log-interval 5 "
                  "--checkpoint-interval 7",
                  folder("data")),
      20);
}

TEST_F(Resume, AFullDiskLeavesTheLastCheckpointAndSaysSo) {
  ASSERT_EQ(run(fmt::format("train {} --out {}", kRun, folder("whole"))), 0) << output();

  const auto child = start(fmt::format("train {} --out {}", kRun, folder("full")), [] {});
  while (!fs::exists(root_ / "full" / "checkpoint.safetensors")) std::this_thread::sleep_for(5ms);
  kill(child, SIGKILL);
  wait_for(child);

  // No file may grow beyond 20 kB: the metrics still fit, a checkpoint does not.
  const auto limited = start(fmt::format("train --resume {}", folder("full")), [] {
    const rlimit limit{20000, 20000};
    setrlimit(RLIMIT_FSIZE, &limit);
  });
  EXPECT_EQ(wait_for(limited), 1) << output();
  const auto text = output();
  EXPECT_NE(text.find("cannot be written"), std::string::npos) << text;

  ASSERT_EQ(run(fmt::format("train --resume {}", folder("full"))), 0) << output();
  expect_equal_runs("whole", "full");
}

}  // namespace
}  // namespace geores
