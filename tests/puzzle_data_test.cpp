// `geores data` for puzzles: its results, and errors of one line.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "geores/base/file.h"
#include "geores/testing/testing.h"
#include "tests/program.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTasks =
    R"({"aa": {"train": [{"input": [[1, 2]], "output": [[2, 1]]}, {"input": [[3]], "output": [[4]]}],
               "test": [{"input": [[5, 6], [7, 8]]}]}})";

class PuzzleData : public testing::Test {
 protected:
  // In an empty folder of its own.
  Outcome run(const std::string& arguments) const {
    return run_program("data " + arguments, {.folder = folder_.path()});
  }
  void expect_refusal(const std::string& arguments, const std::string& line) const {
    const auto files = folder_.file_count();
    const auto result = run(arguments);
    EXPECT_EQ(result.exit_code, 1) << arguments;
    EXPECT_EQ(result.output, "geores: " + line + "\n");
    EXPECT_EQ(folder_.file_count(), files) << "something was written by " << arguments;
  }
  void write_tasks(const std::string& challenges, const std::string& solutions) const {
    fs::create_directories(folder_.path() / "arc");
    write_file_atomically(folder_.path() / "arc/x_challenges.json", challenges);
    write_file_atomically(folder_.path() / "arc/x_solutions.json", solutions);
  }

  TemporaryFolder folder_;
  const std::string arc_ = "arc --tasks arc --subsets x --test x --variants 3 --out set";
};

TEST_F(PuzzleData, MakesAndShowsArcTasks) {
  write_tasks(kTasks, R"({"aa": [[[8, 7], [6, 5]]]})");
  const auto made = run(arc_);
  EXPECT_EQ(made.exit_code, 0) << made.output;
  EXPECT_NE(made.output.find("1 tasks, 5 identifiers, 8 training rows, 4 test rows of 1 tests"),
            std::string::npos)
      << made.output;
  EXPECT_NE(made.output.find("sha256 of the identifiers' names: "), std::string::npos);
  const auto shown = run("puzzles set --task aa");
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_NE(shown.output.find("5 6 ··"), std::string::npos) << shown.output;
  EXPECT_NE(run("puzzles set --color always").output.find("\x1b[48;2;"), std::string::npos);
  EXPECT_EQ(run("puzzles set --split train --count 3 --page page.html").exit_code, 0);
  EXPECT_NE(read_text_file(folder_.path() / "page.html").find("<svg"), std::string::npos);
  expect_refusal("puzzles set --task ab",
                 "[set] has no task 'ab' in this split, did you mean 'aa'?");
  expect_refusal("puzzles set --row 99", "[set] row 99 is not one of 4 rows");
  expect_refusal(arc_, "[set] exists already; choose another folder or remove it");
  auto description = read_text_file(folder_.path() / "set/geores.json");
  const std::string version = "\"version\": 1";
  description.replace(description.find(version), version.size(), "\"version\": 7");
  write_file_atomically(folder_.path() / "set/geores.json", description);
  expect_refusal("puzzles set",
                 "[set] is version 7 of the data set format, this geores reads version 1; build it "
                 "again with geores data");
}

TEST_F(PuzzleData, RefusesBadTasksInOneLineAndWritesNothing) {
  const auto with_output = [](const std::string& output) {
    return R"({"aa": {"train": [{"input": [[1]], "output": )" + output +
           R"(}], "test": [{"input": [[1]]}]}})";
  };
  const std::string solutions = R"({"aa": [[[1]]]})";
  write_tasks(with_output("[[1, 11]]"), solutions);
  expect_refusal(arc_,
                 "[arc/x_challenges.json] task 'aa': train 1 output: row 1 column 2 is 11, not a "
                 "colour 0..9");
  std::string wide = "[[0";
  for (int i = 0; i < 30; ++i) wide += ", 0";
  write_tasks(with_output(wide + "]]"), solutions);
  expect_refusal(
      arc_, "[arc/x_challenges.json] task 'aa': train 1 output is 1 x 31, larger than 30 x 30");
  write_tasks(R"({"aa": {"train": [{"input": [[1]], "output": [[1]]}], "test": []}})", solutions);
  expect_refusal(arc_, "[arc/x_challenges.json] task 'aa': 'test' is empty");
  write_tasks("{\"aa\": ", solutions);
  const auto cut = run(arc_);
  EXPECT_EQ(cut.exit_code, 1);
  EXPECT_EQ(cut.output.find("geores: [arc/x_challenges.json] not valid JSON: parse error"), 0u);
  EXPECT_EQ(std::count(cut.output.begin(), cut.output.end(), '\n'), 1);
  expect_refusal("arc --tasks arc --subsets x --test y --out set",
                 "[data] --test 'y' is not one of the subsets, did you mean 'x'?");
  expect_refusal("arc --tasks nowhere --subsets x --test x --out set",
                 "[nowhere/x_challenges.json] cannot be read: No such file or directory");
}

TEST_F(PuzzleData, MakesSudokusMazesAndReflections) {
  const auto sudoku =
      run("sudoku --size 4 --rounds 0 --train 8 --test 4 --shuffles 3 --threads 1 --out s");
  EXPECT_EQ(sudoku.exit_code, 0) << sudoku.output;
  EXPECT_NE(sudoku.output.find("100 %"), std::string::npos) << sudoku.output;
  EXPECT_NE(run("puzzles s").output.find("rating 0"), std::string::npos);
  const auto maze = run("maze --size 10 --train 4 --test 2 --threads 1 --out m");
  EXPECT_EQ(maze.exit_code, 0) << maze.output;
  EXPECT_NE(run("puzzles m").output.find("S "), std::string::npos);
  const auto reflect = run("reflect --selection synthetic --count 3 --variants 2 --out r");
  EXPECT_EQ(reflect.exit_code, 0) << reflect.output;
  EXPECT_NE(reflect.output.find("6 tasks, 19 identifiers, 54 training rows, 18 test rows"),
            std::string::npos)
      << reflect.output;
  expect_refusal("puzzles s --task aa", "[s] a sudoku data set has no tasks with names; use --row");
  expect_refusal("sudoku --size 5 --out t", "[sudoku] size must be 4, 6 or 9, got 5");
  expect_refusal("maze --size 3 --out t", "[maze] size must be 5 to 60, got 3");
  expect_refusal("sudoku --rows both --out t", "[data] --rows must be made or stored, got 'both'");
  expect_refusal("reflect --selection strikt --out t",
                 "[data] --selection must be published, strict or synthetic, got 'strikt', did you "
                 "mean 'strict'?");
  expect_refusal("reflect --out t", "[data] --selection strict needs --tasks");
}

// A run is evaluated on its own data set, or on one that --data names.
TEST_F(PuzzleData, AnEvaluationKnowsItsDataSet) {
  const auto sudokus = [&](int size, int seed, const std::string& out) {
    const auto made = run(fmt::format(
        "sudoku --size {} --train 6 --test 4 --rounds 0 --seed {} --out {}", size, seed, out));
    ASSERT_EQ(made.exit_code, 0) << made.output;
  };
  const auto program = [&](const std::string& arguments) {
    return run_program(arguments, {.folder = folder_.path()});
  };
  const auto refused = [&](const std::string& flags, const std::string& line) {
    const auto files = folder_.file_count();
    const auto result = program("eval --run run " + flags);
    EXPECT_EQ(result.exit_code, 1) << flags;
    EXPECT_EQ(result.output, "geores: [eval] " + line + "\n");
    EXPECT_EQ(folder_.file_count(), files) << "something was written by " << flags;
  };
  sudokus(4, 1, "set");
  sudokus(4, 2, "other");
  sudokus(6, 1, "six");
  const auto trained = program(
      "train --task puzzles --data set --width 8 --heads 1 --layers 1 --prefix 1 --l-cycles 1 "
      "--h-cycles 1 "
      "--act-steps 2 --batch 4 --steps 2 --out run");
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  EXPECT_EQ(program("eval --run run").exit_code, 0);
  EXPECT_EQ(program("eval --run run --data other").exit_code, 0);
  refused("--data six", "six has puzzles of 36 cells and 8 tokens, run was trained on 16 and 6");
  const auto set = (folder_.path() / "set").string();  // a run knows its data by the absolute path
  refused("--submission s.json", "--submission is for ARC; " + set + " is a sudoku data set");
  refused("--split test", "--split is for runs on text; run is one on puzzles");
  fs::rename(folder_.path() / "set", folder_.path() / "before");
  fs::rename(folder_.path() / "other", folder_.path() / "set");
  refused("", set + " is another data set than the one that run was trained on; --data " + set +
                  " evaluates it all the same");
  const auto other = program("generate --run run");
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(other.output.find("not for puzzles"), std::string::npos) << other.output;
}

}  // namespace
}  // namespace geores
