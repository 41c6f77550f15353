#include "geores/puzzles/grid.h"

#include <gtest/gtest.h>

#include "geores/puzzles/arc/variant.h"
#include "geores/puzzles/sample_test.h"
#include "geores/puzzles/tokens.h"
#include "geores/testing/testing.h"

namespace geores::puzzles {
namespace {

TEST(Variant, AllEightSymmetriesAreThoseOfTheGolden) {
  ASSERT_EQ(golden()["augment"].size(), 8u);
  for (const auto& each : golden()["augment"]) {
    const auto [task, variant] = parse_variant(each["name"].get<std::string>(), "golden");
    const auto output = apply(variant, grid_from(each["input"]));
    EXPECT_EQ(output, grid_from(each["output"])) << each["name"];
    EXPECT_EQ(grid_hash(output), each["sha256"].get<std::string>());
    EXPECT_EQ(name_of(task, variant), each["name"].get<std::string>());
  }
}

TEST(Variant, UndoGivesTheGridBack) {
  Random random({1});
  for (int t = 0; t < 8; ++t)
    for (int i = 0; i < 100; ++i) {
      Variant variant;
      variant.t = static_cast<uint8_t>(t);
      random.shuffle(std::span(variant.colours).subspan(1));
      const auto grid = random_grid(random, 9);
      EXPECT_EQ(undo(variant, apply(variant, grid)), grid) << name_of("x", variant);
      const auto parsed = parse_variant(name_of("x", variant), "test");
      EXPECT_EQ(parsed.variant, variant);
      EXPECT_EQ(parsed.task, "x");
    }
}

TEST(Variant, NamesThatAreNoneAreRefused) {
  for (const char* name : {"x|||t8|||0123456789", "x|||t1|||0123456788", "x|||t1|||1023456789",
                           "x|||t1|||012345678", "x|||1|||0123456789", "x|||t1||0123456789"})
    EXPECT_EQ(refusal([&] { parse_variant(name, "f"); }),
              std::string("[f] '") + name +
                  "' is no name of a variant; one looks like TASK|||t7|||0612397845");
  EXPECT_EQ(refusal([&] { parse_variant("|||t1|||0123456789", "f"); }),
            "[f] '|||t1|||0123456789' names no task");
}

TEST(Grid, HashOfAPuzzleDoesNotDependOnTheOrderOfItsPairs) {
  Random random({2});
  auto pairs = random_pairs(random, 4, 5);
  const auto hash = puzzle_hash(pairs);
  std::swap(pairs[0], pairs[3]);
  EXPECT_EQ(puzzle_hash(pairs), hash);
  std::swap(pairs[0].input, pairs[0].output);
  EXPECT_NE(puzzle_hash(pairs), hash);
}

TEST(Grid, HashOfAPuzzleIsTheGoldens) {
  if (!has_arc()) GTEST_SKIP() << "GEORES_DATA_DIR has no ARC tasks";
  const auto& each = golden()["puzzle_hash"];
  const auto& task = find_task(arc_subset("evaluation"), each["puzzle"], "evaluation");
  auto pairs = task.demonstrations;
  pairs.insert(pairs.end(), task.tests.begin(), task.tests.end());
  EXPECT_EQ(puzzle_hash(pairs), each["sha256"].get<std::string>());
}

TEST(Tokens, AreArrangedAsInTheGolden) {
  for (const auto& each : golden()["tokens"])
    for (const std::string side : {"input", "output"}) {
      std::vector<uint8_t> tokens(900, 99);
      write_tokens(grid_from(each[side]), 30, each["row"], each["column"], tokens);
      const auto expected = tokens_from(each[side + "_tokens"]);
      EXPECT_TRUE(std::ranges::equal(tokens, expected)) << each["puzzle"] << side;
    }
}

TEST(Tokens, OfAGridBeyondTheCanvasAreRefused) {
  std::vector<uint8_t> tokens(16);
  EXPECT_EQ(refusal([&] {
              write_tokens({3, 2, {1, 1, 1, 1, 1, 1}}, 4, 2, 0, tokens);
            }),
            "[puzzles] a grid of 3 x 2 at (2, 0) is not within a canvas of 4 x 4");
}

TEST(Crop, IsThatOfTheGolden) {
  for (const auto& each : golden()["crop"]) {
    const auto grid = crop(tokens_from(each["tokens"]), 30);
    EXPECT_EQ(grid.height, each["rows"]);
    EXPECT_EQ(grid.width, each["columns"]);
  }
}

// All rectangles at the origin, one by one.
TEST(Crop, IsTheLargestRectangleOfColoursWithFewestRows) {
  Random random({3});
  for (int trial = 0; trial < 300; ++trial) {
    const int canvas = static_cast<int>(1 + random.below(7));
    std::vector<int32_t> tokens;
    for (int i = 0; i < canvas * canvas; ++i)
      tokens.push_back(random.below(5) == 0 ? static_cast<int32_t>(random.below(2))
                                            : static_cast<int32_t>(2 + random.below(10)));
    int best = 0, rows = 0, columns = 0;
    for (int h = 1; h <= canvas; ++h)
      for (int w = 1; w <= canvas; ++w) {
        bool whole = true;
        for (int i = 0; i < h; ++i)
          for (int j = 0; j < w; ++j)
            whole = whole && tokens[static_cast<std::size_t>(i * canvas + j)] >= 2;
        if (whole && h * w > best) best = h * w, rows = h, columns = w;
      }
    const auto grid = crop(tokens, canvas);
    EXPECT_EQ(grid.height, rows);
    EXPECT_EQ(grid.width, columns);
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j)
        EXPECT_EQ(grid.at(i, j), tokens[static_cast<std::size_t>(i * canvas + j)] - 2);
  }
}

TEST(Crop, OfTokensGivesTheGridBack) {
  Random random({4});
  for (int trial = 0; trial < 100; ++trial) {
    const auto grid = random_grid(random, 10);
    std::vector<uint8_t> tokens(100);
    write_tokens(grid, 10, 0, 0, tokens);
    EXPECT_EQ(crop(std::vector<int32_t>(tokens.begin(), tokens.end()), 10), grid);
  }
}

}  // namespace
}  // namespace geores::puzzles
