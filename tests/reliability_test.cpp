// The program as an attacker meets it: output that cannot be written, two processes in one folder,
// signals, full disks, numbers beyond every range.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cli/terminal/process.h"
#include "geores/base/file.h"
#include "geores/base/formats/npy.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class Reliability : public testing::Test {
 protected:
  static constexpr const char* kData =
      "--task near_pi --train-sequences 64 --validation-sequences 16 --length 17";
  static constexpr const char* kModel =
      "--layers 1 --width 16 --heads 2 --batch 8 --eval-batches 2 --final-eval-batches 2";

  // `streams` redirects the output as a shell does: "2>/dev/full". Output that is not redirected there
  // goes to a file.
  pid_t start(const std::string& arguments, const std::string& streams = "") const {
    const auto command = fmt::format("exec {} {} > {} 2>&1 {}", GEORES_PROGRAM, arguments,
                                     (root_ / "output").string(), streams);
    const auto child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is ended leaves no run behind
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    return child;
  }
  int wait_for(pid_t child) const {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int run(const std::string& arguments, const std::string& streams = "") const {
    return wait_for(start(arguments, streams));
  }
  std::string output() const { return read_text_file(root_ / "output"); }
  std::string train(const std::string& more = "--steps 12") const {
    return fmt::format("train {} {} {} --out {}", kData, kModel, more, out());
  }
  std::string out() const { return (root_ / "run").string(); }
  fs::path file(const char* name) const { return root_ / "run" / name; }

  void expect_whole_metrics() const {
    std::istringstream lines(read_text_file(file("metrics.jsonl")));
    for (std::string line; std::getline(lines, line);)
      EXPECT_TRUE(nlohmann::json::parse(line, nullptr, false).is_object()) << line;
  }

  // A run that does not end by itself, after its first checkpoint.
  pid_t start_long_run() const {
    const auto child = start(train("--steps 1000000 --checkpoint-interval 1000000"));
    for (int i = 0; i < 3000 && !fs::exists(file("checkpoint.safetensors")); ++i)
      std::this_thread::sleep_for(10ms);
    return child;
  }

  const TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
};

TEST_F(Reliability, OutputThatCannotBeWrittenDoesNotEndARun) {
  for (const auto* streams : {"2>/dev/full", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    EXPECT_EQ(run(train() + " --overwrite", streams), 0) << streams;
    EXPECT_TRUE(fs::exists(file("result.json"))) << streams;
    expect_whole_metrics();
    fs::remove(file("result.json"));
  }
  // A closed pipe: the run continues, and only its messages are lost.
  const auto piped = fmt::format("{} {} --overwrite 2>&1 | true", GEORES_PROGRAM, train());
  EXPECT_EQ(std::system(piped.c_str()), 0);
  EXPECT_TRUE(fs::exists(file("result.json")));
}

TEST_F(Reliability, LostResultsAreAnError) {
  for (const auto* arguments : {"list", "--help", "--version", "params --json"}) {
    EXPECT_EQ(run(arguments, ">/dev/full"), 1) << arguments;
    const auto text = output();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    EXPECT_NE(text.find("writ"), std::string::npos) << text;  // cannot be written, cannot write
  }
  EXPECT_EQ(run("--version"), 0);
  EXPECT_TRUE(output().starts_with("geores 0.")) << output();
}

TEST_F(Reliability, OneProcessTrainsInAFolder) {
  const auto first = start_long_run();
  EXPECT_TRUE(fs::exists(file("checkpoint.safetensors"))) << output();
  for (const auto& second : {train("--overwrite"), train(), "train --resume " + out()}) {
    EXPECT_EQ(run(second), 1) << second;
    EXPECT_NE(output().find(fmt::format("is in use by process {} on ", first)), std::string::npos)
        << output();
  }
  kill(first, SIGKILL);
  EXPECT_EQ(wait_for(first), -SIGKILL);
  // The lock goes with its process.
  EXPECT_EQ(run(train("--steps 3 --overwrite")), 0) << output();
}

TEST_F(Reliability, ASignalEndsARunAfterItsStep) {
  for (const auto& [number, code] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 143)}) {
    const auto child = start_long_run();
    kill(child, number);
    EXPECT_EQ(wait_for(child), code);
    EXPECT_NE(output().find("to go on: geores train --resume " + out()), std::string::npos)
        << output();
    EXPECT_FALSE(fs::exists(file("in_use.lock")));
    EXPECT_FALSE(fs::exists(file("result.json")));
    EXPECT_TRUE(fs::exists(file("checkpoint.previous.safetensors"))) << "one more was written";
    for (const auto& entry : fs::directory_iterator(out())) fs::remove(entry);
  }
}

TEST_F(Reliability, ASecondSignalStopsAtOnce) {
  // The first step takes seconds; it begins after an evaluation.
  const auto child = start(
      fmt::format("train {} --layers 8 --width 512 --heads 8 --batch 64 --out {}", kData, out()));
  const auto wait_until = [](auto&& happened) {
    for (int i = 0; i < 6000 && !happened(); ++i) std::this_thread::sleep_for(10ms);
  };
  const auto metrics = file(".starting") / "metrics.jsonl";
  wait_until([&] { return fs::exists(metrics) && fs::file_size(metrics) > 0; });
  kill(child, SIGTERM);
  wait_until([&] { return output().find("once more to stop at once") != std::string::npos; });
  kill(child, SIGTERM);
  EXPECT_EQ(wait_for(child), -SIGTERM) << output();
}

TEST_F(Reliability, ALossBeyondFloat32IsADivergence) {
  NpyArray array{.dtype = Dtype::f32, .shape = {4, 5, 2}, .bytes = {}};
  std::vector<float> values(40, 1e25f);
  values[3] = 0.5f;
  const auto bytes = std::as_bytes(std::span(values));
  array.bytes.assign(bytes.begin(), bytes.end());
  for (const auto* name : {"train_x.npy", "train_y.npy", "val_x.npy", "val_y.npy"})
    save_npy(root_ / name, array);
  const auto code = run(fmt::format(
      "train --task folder --data {} --layers 1 --width 8 --heads 2 --batch 2 --steps 4 --out {}",
      root_.string(), out()));
  EXPECT_EQ(code, 3) << output();
  EXPECT_TRUE(
      nlohmann::json::parse(read_text_file(file("result.json"))).at("diverged").get<bool>());
  EXPECT_NE(output().find("the loss is inf at step 0"), std::string::npos) << output();
}

TEST_F(Reliability, RefusalsAreOneClearLine) {
  ASSERT_EQ(run(train()), 0) << output();
  const auto other = fmt::format("train {} --out {}2 ", kData, out());
  struct {
    std::string arguments, says;
  } const cases[] = {
      {other + "--model mhc --sinkhorn-iterations 4294967297",
       "'sinkhorn_iterations' must be between 1 and 100000, got 4294967297"},
      {other + "--model jpmhc --cayley-iterations 4294967297",
       "'cayley_iterations' must be between 0 and 100000"},
      {other + "--width 16 --heads 3", "width 16 is not divisible by 3 heads"},
      {other + "--layers 1 --width 1000000000 --heads 1", "memory"},
      {"bench --batch 0", "--batch"},
      {"bench --models additive --length -1", "--length"},
      {"bench --generate --models additive --length 3", "--length of at least 4, got 3"},
      {"bench --connection-alone --models foo", "foo"},
      {"params --width 1e300", "--width"},
      {"list --width 99999999999999999999999999", "--width"},
  };
  for (const auto& [arguments, says] : cases) {
    EXPECT_NE(run(arguments), 0) << arguments;
    const auto text = output();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << arguments << ": " << text;
    EXPECT_NE(text.find(says), std::string::npos) << arguments << ": " << text;
    EXPECT_LT(text.size(), 250u) << arguments << ": " << text;
    for (const auto* word : {"stoll", "bad_alloc", "json.exception", "enforce fail"})
      EXPECT_EQ(text.find(word), std::string::npos) << text;
  }
  EXPECT_FALSE(fs::exists(out() + "2"));
}

// Without recomputation the same run takes 1.1 GB.
TEST_F(Reliability, TwoHundredLayersTrainWithinAGigabyte) {
  const auto child = start(
      "train --task copy --length 32 --vocabulary 16 --train-sequences 88 --validation-sequences 4 "
      "--model hc --layers 200 --width 32 --heads 2 --batch 44 --steps 3 --eval-batches 1 "
      "--final-eval-batches 1 --checkpoint blocks --out " +
      out());
  int status = 0;
  rusage used{};
  ASSERT_EQ(wait4(child, &status, 0, &used), child);
  EXPECT_EQ(status, 0) << output();
  EXPECT_LT(used.ru_maxrss, 1 << 20) << "KiB";
}

TEST(LastWords, ShortenWhatLibTorchSaysOfAGpusMemory) {
  const auto said = [](const std::string& text) {
    return cli::last_words(std::runtime_error(text));
  };
  const std::string advice =
      "; fewer runs at a time (--jobs), a smaller --batch or --checkpoint blocks need less";
  EXPECT_EQ(
      said("CUDA out of memory. Tried to allocate 1024.00 MiB. GPU 0 has a total capacity of "
           "139.80 GiB of which 871.31 MiB is free. Process 576 has 66.00 MiB memory in use."),
      "the GPU has not enough memory: 1024.00 MiB were asked for and 871.31 MiB are free" + advice);
  EXPECT_EQ(said("CUDA out of memory."), "the GPU has not enough memory" + advice);
  EXPECT_EQ(said("something else\nin two lines"), "something else");
}

// One bit of one weight changes on the disk: numbers, not a shape or a name.
TEST_F(Reliability, AFlippedBitInTheWeightsOfARunIsFound) {
  const auto text = (root_ / "a.txt").string(), ids = (root_ / "ids").string(),
             sudokus = (root_ / "sudokus").string();
  std::string words;
  for (int i = 0; i < 20; ++i) words += fmt::format("{} words of a text\n", i * i);
  write_file_atomically(text, words);
  ASSERT_EQ(run(fmt::format("data text --input {} --tokenizer chars --out {}", text, ids)), 0);
  ASSERT_EQ(run("data sudoku --size 4 --train 8 --test 4 --shuffles 2 --out " + sudokus), 0);
  const auto without_best = [&] { fs::remove(file("best.safetensors")); };
  struct {
    std::string train, weights;
    std::function<void()> before;
  } const cases[] = {
      {train(), "best.safetensors", [] {}},
      {train(), "checkpoint.safetensors", without_best},
      {fmt::format("train --task text --data {} --model additive --context 4 {} --steps 4 --out {}",
                   ids, kModel, out()),
       "best.safetensors", [] {}},
      {fmt::format("train --task puzzles --data {} --mixer none --width 16 --heads 2 --prefix 1 "
                   "--h-cycles 1 --l-cycles 1 --act-steps 2 --batch 8 --steps 4 --out {}",
                   sudokus, out()),
       "checkpoint.safetensors", [] {}}};
  for (const auto& [arguments, weights, before] : cases) {
    ASSERT_EQ(run(arguments + " --overwrite"), 0) << output();
    before();
    EXPECT_EQ(run("eval --run " + out()), 0) << output();
    const auto path = file(weights.c_str());
    auto bytes = read_file(path);
    bytes[bytes.size() - 2] ^= std::byte{1};
    write_file_atomically(path, bytes);
    EXPECT_EQ(run("eval --run " + out()), 1) << arguments;
    EXPECT_EQ(output(), fmt::format("geores: [{}] was damaged after it was written: its checksum "
                                    "does not fit\n",
                                    path.string()));
    bytes[bytes.size() - 2] ^= std::byte{1};
    write_file_atomically(path, bytes);
    EXPECT_EQ(run("eval --run " + out()), 0) << output();
  }
}

TEST_F(Reliability, DataThatIsMadeAgainRemovesWhatAKilledProcessLeft) {
  const auto set = (root_ / "set").string();
  const auto left = [&] {
    int folders = 0;
    for (const auto& entry : fs::directory_iterator(root_))
      folders += entry.path().filename().native().starts_with("set.partial-") ? 1 : 0;
    return folders;
  };
  const auto child = start(
      "data sudoku --size 4 --rounds 0 --train 40 --test 1 --rows stored --shuffles 20000 --out " +
      set);
  for (int i = 0; i < 60000 && left() == 0; ++i) std::this_thread::sleep_for(1ms);
  kill(child, SIGKILL);
  ASSERT_EQ(wait_for(child), -SIGKILL);
  ASSERT_EQ(left(), 1);
  EXPECT_EQ(run("data maze --size 5 --train 2 --test 2 --out " + set), 0) << output();
  EXPECT_EQ(left(), 0);
}

TEST_F(Reliability, PredictionsNameTheStepOfTheirWeights) {
  ASSERT_EQ(run(train("--steps 12 --eval-interval 1000")), 0) << output();
  const NpyArray array{
      .dtype = Dtype::f32, .shape = {1, 4, 64}, .bytes = std::vector<std::byte>(4 * 64 * 4)};
  save_npy(root_ / "x.npy", array);
  EXPECT_EQ(run(fmt::format("predict --run {} --input {} --output {}", out(),
                            (root_ / "x.npy").string(), (root_ / "y.npy").string())),
            0);
  EXPECT_NE(output().find("weights of step 12"), std::string::npos) << output();
  EXPECT_EQ(run("eval --run " + out()), 0);
  EXPECT_NE(output().find("weights of step 12"), std::string::npos) << output();
}

// geores starts geores-lab, which is in its folder, with the same arguments.
TEST_F(Reliability, CommandsOfTheLabRunWhereItIsAndAreRefusedWhereItIsNot) {
  EXPECT_EQ(run("spectral-gap --streams 3 --generators 2"), 0);
  EXPECT_NE(output().find("best gap 0.50000"), std::string::npos) << output();
  EXPECT_EQ(run("reproduce --scale none --out " + out()), 1);
  EXPECT_EQ(output().find("geores: [reproduce]"), 0u) << output();

  const auto alone = root_ / "geores";
  fs::copy_file(GEORES_PROGRAM, alone);
  const auto command =
      fmt::format("{} bench --repeats 1 > {} 2>&1", alone.string(), (root_ / "output").string());
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 1);
  EXPECT_EQ(output(), fmt::format("geores: [bench] needs {}/geores-lab, which is not built: run "
                                  "scripts/build release\n",
                                  root_.string()));
}

}  // namespace
}  // namespace geores
