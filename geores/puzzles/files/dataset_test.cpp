#include "geores/puzzles/dataset.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "geores/base/file.h"
#include "geores/base/formats/npy.h"
#include "geores/puzzles/files/dataset_writer.h"
#include "geores/puzzles/files/folder_in_progress.h"
#include "geores/puzzles/sample_test.h"
#include "geores/puzzles/sudoku/shuffle.h"
#include "geores/puzzles/tokens.h"
#include "geores/testing/testing.h"

namespace geores::puzzles {
namespace {

namespace fs = std::filesystem;

ArcRecipe small_arc() {
  return build_arc({{random_tasks("a", 4, 6), false}, {random_tasks("bb", 3, 6), true}},
                   {.variants = 6, .seed = 3, .canvas = 8});
}

SudokuSet small_sudokus() {
  return generate_sudokus({.size = 4, .rounds = {0}, .seed = 9, .threads = 1}, 6, 3);
}

void expect_same_rows(const Split& a, const Split& b) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.variants(), b.variants());
  ASSERT_EQ(a.groups(), b.groups());
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < a.rows(); ++row) rows.push_back(row);
  const auto x = a.batch(rows), y = b.batch(rows);
  EXPECT_EQ(x.inputs, y.inputs);
  EXPECT_EQ(x.labels, y.labels);
  EXPECT_EQ(x.identifiers, y.identifiers);
}

class PuzzleFolder : public ::testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  // The refusal to open a folder, without the path before it.
  std::string refused(const std::string& name) const {
    auto text = refusal([&] { Dataset::open(path(name)); });
    const auto prefix = folder_.path().string() + "/";
    for (auto at = text.find(prefix); at != text.npos; at = text.find(prefix))
      text.erase(at, prefix.size());
    return text;
  }
  void replace_in(const fs::path& file, const std::string& old, const std::string& now) {
    auto text = read_text_file(file);
    const auto at = text.find(old);
    ASSERT_NE(at, text.npos);
    write_file_atomically(file, text.replace(at, old.size(), now));
  }
  // Lets the changed file reach the other checks.
  void forget_sums(const std::string& name) {
    const auto file = path(name) / "geores.json";
    auto description = nlohmann::json::parse(read_text_file(file));
    description.erase("files");
    write_file_atomically(file, description.dump());
  }
  TemporaryFolder folder_;
};

TEST_F(PuzzleFolder, ArcRowsAreTheSameMadeStoredAndAsPublished) {
  const auto recipe = small_arc();
  write_arc(path("made"), "arc", recipe, Rows::made, {});
  write_arc(path("stored"), "arc", recipe, Rows::stored, {});
  write_arc(path("published"), "arc", recipe, Rows::stored, {});
  fs::remove(path("published") / "geores.json");
  const auto made = Dataset::open(path("made")), stored = Dataset::open(path("stored")),
             published = Dataset::open(path("published"));
  EXPECT_EQ(made.info().identifiers, static_cast<int64_t>(recipe.variants.size()) + 1);
  EXPECT_EQ(published.info().kind, "arc");
  EXPECT_EQ(published.info().width, 8);
  for (const auto* other : {&stored, &published}) {
    expect_same_rows(made.train(), other->train());
    expect_same_rows(made.test(), other->test());
    for (int32_t i = 0; i < made.info().identifiers; ++i)
      EXPECT_EQ(made.identifier_name(i), other->identifier_name(i));
    for (const auto& group : made.arc().groups) {
      if (group.test.empty()) continue;
      const auto& found = *std::ranges::find(other->arc().groups, group.task, &Group::task);
      EXPECT_EQ(found.test, group.test);
      EXPECT_EQ(found.train, group.train);
    }
  }
  EXPECT_NE(made.fingerprint(), stored.fingerprint());
}

TEST_F(PuzzleFolder, ArcRowsHoldTheVariantOfTheirIdentifier) {
  write_arc(path("x"), "arc", small_arc(), Rows::made, {});
  const auto data = Dataset::open(path("x"));
  for (int64_t row = 0; row < data.test().rows(); ++row) {
    const auto batch = data.test().batch(std::vector{row});
    const auto position = data.test().position(row);
    const auto& group =
        data.arc().groups[static_cast<std::size_t>(data.arc().group(position.identifier))];
    const auto& variant = data.arc().variant(position.identifier);
    EXPECT_EQ(undo(variant, crop(batch.inputs, 8)),
              group.test[static_cast<std::size_t>(position.row_in_variant)].input);
    EXPECT_EQ(std::ranges::count(batch.labels, kPad), 0);
  }
}

TEST_F(PuzzleFolder, SudokuRowsAreTheSameMadeAndStored) {
  const auto set = small_sudokus();
  write_sudokus(path("made"), 4, set, 5, Rows::made, {{"seed", 3}});
  write_sudokus(path("stored"), 4, set, 5, Rows::stored, {{"seed", 3}});
  const auto made = Dataset::open(path("made")), stored = Dataset::open(path("stored"));
  EXPECT_EQ(made.info().vocabulary, 6);
  EXPECT_EQ(made.info().identifiers, 1);
  EXPECT_EQ(made.train().rows(), 36);
  expect_same_rows(made.train(), stored.train());
  expect_same_rows(made.test(), stored.test());
  for (int64_t row = 0; row < made.train().rows(); ++row) {
    const auto batch = made.train().batch(std::vector{row});
    EXPECT_EQ(made.train().rating(row), set.train[static_cast<std::size_t>(row / 6)].rating);
    Board board, solution;
    for (const auto token : batch.inputs) board.push_back(static_cast<uint8_t>(token - 1));
    for (const auto token : batch.labels) solution.push_back(static_cast<uint8_t>(token - 1));
    EXPECT_EQ(solve_sudoku(sudoku_shape(4), board).solution, solution);
    EXPECT_TRUE(has_one_solution(sudoku_shape(4), board));
  }
}

TEST_F(PuzzleFolder, MazesAreTrainedInAllOrientationsIfWanted) {
  const auto set = generate_mazes({.size = 8, .shortest = 8, .seed = 1, .threads = 1}, 3, 2);
  write_mazes(path("plain"), 8, set, false, {});
  write_mazes(path("turned"), 8, set, true, {});
  const auto plain = Dataset::open(path("plain")), turned = Dataset::open(path("turned"));
  EXPECT_EQ(plain.train().rows(), 3);
  EXPECT_EQ(turned.train().rows(), 24);
  EXPECT_EQ(turned.train().groups(), 3);
  for (int64_t row = 0; row < 24; ++row) {
    const auto batch = turned.train().batch(std::vector{row});
    EXPECT_TRUE(is_shortest_path(batch.inputs, batch.labels, 8));
  }
  expect_same_rows(plain.test(), turned.test());
}

TEST_F(PuzzleFolder, OfAnotherVersionIsRefused) {
  write_arc(path("x"), "arc", small_arc(), Rows::made, {});
  replace_in(path("x") / "geores.json", "\"version\": 1", "\"version\": 2");
  EXPECT_EQ(refused("x"),
            "[x] is version 2 of the data set format, this geores reads version 1; build it again "
            "with geores data");
}

TEST_F(PuzzleFolder, ThatIsDamagedIsRefusedInOneLine) {
  EXPECT_EQ(refused("nothing"), "[nothing] is not a folder with a puzzle data set");
  fs::create_directory(path("empty"));
  EXPECT_EQ(refused("empty"),
            "[empty] is not a puzzle data set: it has neither geores.json nor train/dataset.json "
            "(geores data makes one)");
  const auto recipe = small_arc();
  write_arc(path("x"), "arc", recipe, Rows::stored, {});
  const auto rows = Dataset::open(path("x")).train().rows();
  forget_sums("x");
  const auto inputs = path("x") / "train" / "all__inputs.npy";
  save_npy(inputs, {Dtype::u8, {2, 64}, std::vector<std::byte>(128)});
  EXPECT_EQ(refused("x"),
            "[x/train/all__inputs.npy] must be a uint8 array of " + std::to_string(rows) + " x 64");
  std::vector<std::byte> tokens(static_cast<std::size_t>(rows) * 64, std::byte{12});
  save_npy(inputs, {Dtype::u8, {rows, 64}, tokens});
  const auto data = Dataset::open(path("x"));
  EXPECT_EQ(refusal([&] { data.train().batch(std::vector<int64_t>{1}); }),
            "[puzzles] row 1 holds token 12, the vocabulary has 12");
  fs::remove(inputs);
  EXPECT_EQ(refused("x"), "[x/train/all__inputs.npy] cannot be read: No such file or directory");
  write_file_atomically(path("x") / "geores.json", "{\"format\": \"other\"}");
  EXPECT_EQ(refused("x"), "[x/geores.json] does not describe a puzzle data set");
}

TEST_F(PuzzleFolder, ThatIsMutatedNeverCrashes) {
  write_arc(path("x"), "arc", small_arc(), Rows::made, {});
  forget_sums("x");
  std::mt19937_64 random(3);
  for (const char* name : {"geores.json", "tasks.json", "variants.npy", "train/offsets.npy",
                           "train/all__puzzle_indices.npy", "test/all__group_indices.npy",
                           "test/all__puzzle_identifiers.npy"}) {
    const auto file = path("x") / name;
    const auto intact = read_text_file(file);
    for (int i = 0; i < 40; ++i) {
      write_quickly(file, mutate(intact, 130, random));
      refusal([&] {
        const auto data = Dataset::open(path("x"));
        for (int64_t row = 0; row < data.train().rows(); ++row)
          data.train().batch(std::vector{row});
      });
    }
    write_quickly(file, intact);
  }
  EXPECT_EQ(refused("x"), "");
}

TEST_F(PuzzleFolder, FilesThatWereChangedAreRefused) {
  write_arc(path("x"), "arc", small_arc(), Rows::stored, {});
  const auto rows = path("x") / "train/all__inputs.npy";
  auto bytes = read_file(rows);
  bytes.back() ^= std::byte{1};  // a token, and still one
  write_file_atomically(rows, bytes);
  EXPECT_EQ(
      refused("x"),
      "[x/train/all__inputs.npy] was changed since the data set was made; build it again with "
      "geores data");
  bytes.back() ^= std::byte{1};
  write_file_atomically(rows, bytes);
  EXPECT_EQ(refused("x"), "");
}

TEST_F(PuzzleFolder, AppearsWholeOrNotAtAll) {
  try {
    FolderInProgress folder(path("x"));
    folder.write("train/a.json", "text");
    folder.write("b.npy", std::vector<int32_t>{1, 2});
    throw Error("interrupted");
  } catch (const Error&) {
  }
  EXPECT_EQ(folder_.file_count(), 0);
  write_arc(path("x"), "arc", small_arc(), Rows::made, {});
  EXPECT_EQ(folder_.file_count(), 1);
  EXPECT_EQ(refusal([&] { FolderInProgress{path("x")}; }),
            "[" + path("x").string() + "] exists already; choose another folder or remove it");
  EXPECT_EQ(refusal([&] { FolderInProgress{path("y/z")}; }),
            "[" + path("y").string() + "] is not a folder");
  auto recipe = small_arc();
  for (auto& group : recipe.groups) group.test.clear();
  EXPECT_EQ(refusal([&] { write_arc(path("z"), "arc", recipe, Rows::made, {}); }),
            "[arc] no task is left for the test split");
  EXPECT_EQ(folder_.file_count(), 1);
}

TEST_F(PuzzleFolder, WhatDeadProcessesLeftIsRemovedAndALivingOnesStays) {
  const auto child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  const auto left_by = [&](const std::string& whom) { return path("x.partial-" + whom); };
  const std::vector<std::string> dead = {std::to_string(child), std::to_string(::getpid())};
  const std::vector<std::string> others = {std::to_string(::getppid()), "7x", "", "0"};
  for (const auto& names : {dead, others})
    for (const auto& whom : names) {
      fs::create_directories(left_by(whom) / "train");
      write_file_atomically(left_by(whom) / "train/old", std::string_view("old"));
    }
  fs::create_directories(path("y.partial-" + std::to_string(child)));
  write_arc(path("x"), "arc", small_arc(), Rows::made, {});
  for (const auto& whom : dead) EXPECT_FALSE(fs::exists(left_by(whom))) << whom;
  for (const auto& whom : others) EXPECT_TRUE(fs::exists(left_by(whom))) << whom;
  EXPECT_TRUE(fs::exists(path("y.partial-" + std::to_string(child)))) << "of another data set";
  EXPECT_FALSE(fs::exists(path("x") / "train/old"));
}

}  // namespace
}  // namespace geores::puzzles
