#include "geores/puzzles/arc/task_file.h"

#include <gtest/gtest.h>

#include "geores/base/file.h"
#include "geores/puzzles/sample_test.h"
#include "geores/testing/testing.h"

namespace geores::puzzles {
namespace {

constexpr const char* kChallenges =
    R"({"b": {"test": [{"input": [[1, 2]]}], "train": [{"input": [[1]], "output": [[2], [3]]}]},
        "a": {"train": [{"input": [[1]], "output": [[2]]}], "test": [{"input": [[3]]}]}})";
constexpr const char* kSolutions = R"({"a": [[[9]]], "b": [[[7, 8]]]})";

class ArcFiles : public ::testing::Test {
 protected:
  // The refusal of a subset with these texts, without the path of its folder.
  std::string refused(const std::string& challenges, const std::string& solutions = kSolutions) {
    write_quickly(folder_.path() / "x_challenges.json", challenges);
    write_quickly(folder_.path() / "x_solutions.json", solutions);
    auto text = refusal([&] { read_subset(folder_.path(), "x"); });
    const auto prefix = folder_.path().string() + "/";
    if (const auto at = text.find(prefix); at != text.npos) text.erase(at, prefix.size());
    return text;
  }
  // One task 't' with this as its only training input.
  std::string refused_input(const std::string& input) {
    return refused(R"({"t": {"train": [{"input": )" + input +
                       R"(, "output": [[1]]}], "test": [{"input": [[1]]}]}})",
                   R"({"t": [[[1]]]})");
  }
  TemporaryFolder folder_;
};

TEST_F(ArcFiles, AreReadInTheirOwnOrder) {
  EXPECT_EQ(refused(kChallenges), "");
  const auto tasks = read_subset(folder_.path(), "x");
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].name, "b");
  EXPECT_EQ(tasks[0].subset, "x");
  EXPECT_TRUE(tasks[0].tests_first);
  EXPECT_FALSE(tasks[1].tests_first);
  EXPECT_EQ(tasks[0].demonstrations[0].output, (Grid{2, 1, {2, 3}}));
  EXPECT_EQ(tasks[0].tests[0].output, (Grid{1, 2, {7, 8}}));
  EXPECT_EQ(tasks[1].tests[0].output, (Grid{1, 1, {9}}));
}

TEST_F(ArcFiles, WithBadGridsAreRefused) {
  const std::string where = "[x_challenges.json] task 't': train 1 input";
  EXPECT_EQ(refused_input("[]"), where + " must be an array of rows, got []");
  EXPECT_EQ(refused_input("7"), where + " must be an array of rows, got 7");
  EXPECT_EQ(refused_input("[[1], []]"), where + ": row 2 must be an array of colours, got []");
  EXPECT_EQ(refused_input("[[1, 2], [1]]"), where + ": row 2 has 1 cells, row 1 has 2");
  EXPECT_EQ(refused_input("[[1, 10]]"), where + ": row 1 column 2 is 10, not a colour 0..9");
  EXPECT_EQ(refused_input("[[-1]]"), where + ": row 1 column 1 is -1, not a colour 0..9");
  EXPECT_EQ(refused_input("[[1.0]]"), where + ": row 1 column 1 is 1.0, not a colour 0..9");
  EXPECT_EQ(refused_input("[[\"1\"]]"), where + ": row 1 column 1 is \"1\", not a colour 0..9");
  EXPECT_EQ(refused_input("[[18446744073709551615]]"),
            where + ": row 1 column 1 is 18446744073709551615, not a colour 0..9");
  std::string tall = "[[1]", wide = "[[1";
  for (int i = 1; i < 31; ++i) tall += ", [1]", wide += ", 1";
  EXPECT_EQ(refused_input(tall + "]"), where + " is 31 x 1, larger than 30 x 30");
  EXPECT_EQ(refused_input(wide + "]]"), where + " is 1 x 31, larger than 30 x 30");
}

TEST_F(ArcFiles, WithOtherFaultsAreRefused) {
  EXPECT_NE(refused("{").find("[x_challenges.json] not valid JSON: parse error"),
            std::string::npos);
  EXPECT_EQ(refused("[]"), "[x_challenges.json] must be an object of tasks, got []");
  EXPECT_EQ(refused(R"({"t": {"train": [], "test": []}})"),
            "[x_challenges.json] task 't': 'train' is empty");
  EXPECT_EQ(refused(R"({"t": {"train": [{"input": [[1]], "output": [[1]]}], "test": []}})"),
            "[x_challenges.json] task 't': 'test' is empty");
  EXPECT_EQ(refused(R"({"t": {"train": [{"input": [[1]], "output": [[1]]}]}})"),
            "[x_challenges.json] task 't': has no 'test'");
  EXPECT_EQ(refused(R"({"t": {"train": [{"input": [[1]]}], "test": [{"input": [[1]]}]}})"),
            "[x_challenges.json] task 't': train 1 has no output");
  EXPECT_EQ(refused(R"({"t": {"train": [{"in": [[1]]}], "test": []}})"),
            "[x_challenges.json] task 't': train 1 has an unknown key 'in'");
  EXPECT_EQ(refused(R"({"t": {"tests": []}})"),
            "[x_challenges.json] task 't': unknown key 'tests'; a task has train and test");
  EXPECT_EQ(refused(R"({"t": {}, "t": {}})"),
            "[x_challenges.json] key 't' appears twice in one object");
  EXPECT_EQ(refused(R"({"a|||t": {}})"),
            "[x_challenges.json] 'a|||t' cannot be the name of a task");
  EXPECT_EQ(refused(kChallenges, R"({"b": [[[1]]]})"), "[x_solutions.json] has no task 'a'");
  EXPECT_EQ(refused(kChallenges, R"({"a": [[[1]]], "b": []})"),
            "[x_solutions.json] task 'b': must have one output for each of 1 tests, got 0");
  EXPECT_EQ(refused(kChallenges, R"({"a": [[[1]]], "b": [[[1]]], "c": []})"),
            "[x_solutions.json] has task 'c', which is not in the challenges");
}

TEST_F(ArcFiles, WithoutSolutionsAreRefusedAsSubsetAndReadAsTasks) {
  const auto path = folder_.path() / "y_challenges.json";
  write_file_atomically(path, kChallenges);
  EXPECT_EQ(
      refusal([&] { read_subset(folder_.path(), "y"); }),
      "[" + path.string() + "] task 'b': a test has no output and there is no y_solutions.json");
  EXPECT_EQ(read_tasks(path).size(), 2u);
  EXPECT_NE(refusal([&] { read_subset(folder_.path(), "z"); }).find("cannot be read"),
            std::string::npos);
}

TEST_F(ArcFiles, MayHoldOneTaskAlone) {
  const auto path = folder_.path() / "007bbfb7.json";
  write_file_atomically(
      path, R"({"train": [{"input": [[1]], "output": [[2]]}], "test": [{"input": [[3]]}]})");
  const auto tasks = read_tasks(path);
  ASSERT_EQ(tasks.size(), 1u);
  EXPECT_EQ(tasks[0].name, "007bbfb7");
  EXPECT_EQ(&find_task(tasks, "007bbfb7", "f"), &tasks[0]);
  EXPECT_EQ(refusal([&] { find_task(tasks, "007bbfb8", "f"); }),
            "[f] has no task '007bbfb8', did you mean '007bbfb7'?");
}

TEST_F(ArcFiles, ThatAreDamagedNeverCrash) {
  std::mt19937_64 random(5);
  const auto path = folder_.path() / "m.json";
  for (int i = 0; i < 300; ++i) {
    write_quickly(path, mutate(kChallenges, 60, random));
    refusal([&] { read_tasks(path); });
  }
}

}  // namespace
}  // namespace geores::puzzles
