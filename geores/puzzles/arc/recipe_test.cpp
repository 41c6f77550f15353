#include "geores/puzzles/arc/recipe.h"

#include <gtest/gtest.h>

#include <set>

#include "geores/base/sha256.h"
#include "geores/puzzles/arc/duplicate_finder.h"
#include "geores/puzzles/sample_test.h"
#include "geores/puzzles/tokens.h"
#include "geores/testing/testing.h"

namespace geores::puzzles {
namespace {

std::vector<Subset> arc_subsets() {
  std::vector<Subset> subsets;
  for (const std::string name : {"training", "evaluation", "concept"})
    subsets.push_back({arc_subset(name), name == "evaluation"});
  return subsets;
}

std::vector<std::string> names_of(const ArcRecipe& recipe) {
  std::vector<std::string> names{"<blank>"};
  for (std::size_t g = 0; g < recipe.groups.size(); ++g)
    for (auto v = recipe.first_variant[g]; v < recipe.first_variant[g + 1]; ++v)
      names.push_back(name_of(recipe.groups[g].task, recipe.variants[static_cast<std::size_t>(v)]));
  return names;
}

// The bytes of all inputs or labels of a split, in order.
std::string sum_of_rows(const ArcRecipe& recipe, bool train, bool labels) {
  Sha256 sum;
  std::vector<uint8_t> tokens[2] = {std::vector<uint8_t>(900), std::vector<uint8_t>(900)};
  std::size_t row = 0;
  for (std::size_t g = 0; g < recipe.groups.size(); ++g)
    for (auto v = recipe.first_variant[g]; v < recipe.first_variant[g + 1]; ++v)
      for (const auto& pair : train ? recipe.groups[g].train : recipe.groups[g].test) {
        const auto offset = train ? recipe.offsets[row++] : std::array<uint8_t, 2>{0, 0};
        make_row(pair, recipe.variants[static_cast<std::size_t>(v)], 30, offset, tokens[0],
                 tokens[1]);
        sum.add(std::as_bytes(std::span(tokens[labels ? 1 : 0])));
      }
  return sum.hex();
}

TEST(ArcBuild, IsThatOfThePublicCodeToTheBit) {
  if (!has_arc()) GTEST_SKIP() << "GEORES_DATA_DIR has no ARC tasks";
  const auto& expected = golden()["build"];
  const auto recipe = build_arc(arc_subsets(), {.variants = expected["augmentations"]});
  const auto names = names_of(recipe);
  EXPECT_EQ(names.size(), expected["identifiers"]);
  const auto first = expected["first_identifiers"].get<std::vector<std::string>>();
  const auto last = expected["last_identifiers"].get<std::vector<std::string>>();
  EXPECT_TRUE(std::equal(first.begin(), first.end(), names.begin()));
  EXPECT_TRUE(std::equal(last.rbegin(), last.rend(), names.rbegin()));
  for (const bool train : {true, false}) {
    const auto& split = expected[train ? "train" : "test"];
    EXPECT_EQ(sum_of_rows(recipe, train, false), split["inputs_sha256"].get<std::string>());
    EXPECT_EQ(sum_of_rows(recipe, train, true), split["labels_sha256"].get<std::string>());
  }
}

TEST(ArcBuild, OfAThousandVariantsHasThePublishedIdentifiers) {
  if (!has_arc()) GTEST_SKIP() << "GEORES_DATA_DIR has no ARC tasks";
  const auto recipe = build_arc(arc_subsets(), {});
  EXPECT_EQ(recipe.groups.size(), 960u);
  EXPECT_EQ(recipe.variants.size() + 1, 876406u);
  EXPECT_EQ(recipe.offsets.size(), 3633410u);
  EXPECT_EQ(identifiers_hash(recipe),
            "0c151b9fd830bab206d04b605971e085fd008a2ae587625bdc6cc7ca65afcd5c");
  int64_t tests = 0, test_rows = 0, few = 0, pairs = 0;
  for (std::size_t g = 0; g < recipe.groups.size(); ++g) {
    const auto variants = recipe.first_variant[g + 1] - recipe.first_variant[g];
    const auto count = static_cast<int64_t>(recipe.groups[g].test.size());
    tests += count;
    test_rows += count * variants;
    few += variants < 1001;
    pairs += static_cast<int64_t>(recipe.groups[g].train.size());
  }
  EXPECT_EQ(tests, 419);
  EXPECT_EQ(test_rows, 385815);
  EXPECT_EQ(few, 164);
  EXPECT_EQ(pairs, 3988);
}

TEST(ArcBuild, OnASmallCanvasLeavesLargerTasksOut) {
  if (!has_arc()) GTEST_SKIP() << "GEORES_DATA_DIR has no ARC tasks";
  const auto recipe = build_arc(arc_subsets(), {.variants = 0, .canvas = 10});
  std::map<std::string, int> tasks;
  std::size_t tests = 0;
  for (const auto& group : recipe.groups) ++tasks[group.subset], tests += group.test.size();
  EXPECT_EQ(tasks["training"], 178);
  EXPECT_EQ(tasks["evaluation"], 77);
  EXPECT_EQ(tasks["concept"], 39);
  EXPECT_EQ(tests, 88u);
}

// Puzzles of one or two colours on tiny grids have many equal variants.
TEST(DuplicateFinder, AgreesWithTheHashOfThePuzzle) {
  Random random({11});
  int duplicates = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const auto pairs = random_pairs(random, 1 + random.below(3), 3, 3);
    DuplicateFinder finder(pairs);
    std::set<std::string> known;
    for (int i = 0; i < 40; ++i) {
      Variant variant;
      variant.t = static_cast<uint8_t>(random.below(8));
      random.shuffle(std::span(variant.colours).subspan(1));
      auto mapped = pairs;
      for (auto& pair : mapped) pair = {apply(variant, pair.input), apply(variant, pair.output)};
      const bool is_new = known.insert(puzzle_hash(mapped)).second;
      EXPECT_EQ(finder.is_new(variant), is_new);
      duplicates += !is_new;
    }
  }
  EXPECT_GT(duplicates, 100);
}

TEST(ArcBuild, EveryVariantIsAnotherPuzzleAndOnePairStaysAtTheOrigin) {
  const auto recipe =
      build_arc({{random_tasks("a", 5, 6), false}, {random_tasks("bb", 5, 6), true}},
                {.variants = 20, .seed = 3, .canvas = 8});
  EXPECT_EQ(recipe.groups.size(), 10u);
  std::size_t row = 0;
  for (std::size_t g = 0; g < recipe.groups.size(); ++g) {
    std::set<std::string> known;
    const auto& group = recipe.groups[g];
    EXPECT_EQ(group.test.empty(), group.subset == "a");
    for (auto v = recipe.first_variant[g]; v < recipe.first_variant[g + 1]; ++v) {
      auto pairs = group.train;
      pairs.insert(pairs.end(), group.test.begin(), group.test.end());
      for (auto& pair : pairs) {
        const auto& variant = recipe.variants[static_cast<std::size_t>(v)];
        pair = {apply(variant, pair.input), apply(variant, pair.output)};
      }
      EXPECT_TRUE(known.insert(puzzle_hash(pairs)).second);
      bool stays = false;
      for (std::size_t i = 0; i < group.train.size(); ++i)
        stays = recipe.offsets[row++] == std::array<uint8_t, 2>{0, 0} || stays;
      EXPECT_TRUE(stays);
    }
  }
  EXPECT_EQ(row, recipe.offsets.size());
}

TEST(ArcBuild, RefusesWhatCannotBeBuilt) {
  const auto tasks = random_tasks("a", 2, 6);
  EXPECT_EQ(refusal([&] {
              build_arc({{tasks, false}, {tasks, true}}, {.variants = 1});
            }).substr(0, 12),
            "[arc] task '");
  EXPECT_EQ(refusal([&] {
              build_arc({{tasks, true}}, {.canvas = 31});
            }),
            "[arc] canvas must be 1 to 30, got 31");
  EXPECT_EQ(refusal([&] {
              build_arc({{tasks, true}}, {.canvas = 1});
            }),
            "[arc] no task fits a canvas of 1 x 1");
  EXPECT_EQ(refusal([&] {
              build_arc({{tasks, true}}, {.variants = -1});
            }),
            "[arc] variants must be 0 to 100000, got -1");
}

}  // namespace
}  // namespace geores::puzzles
