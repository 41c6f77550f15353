#include "geores/puzzles/maze/maze.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "geores/testing/testing.h"

namespace geores::puzzles {
namespace {

std::vector<int32_t> wide(const std::vector<uint8_t>& tokens) {
  return {tokens.begin(), tokens.end()};
}

// # wall, . free, S, G, o path
std::vector<int32_t> from(const std::string& text) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<int32_t>(std::string("_#.SGo").find(c)));
  return tokens;
}

TEST(Maze, HasOneShortestPathAndTheLabelIsIt) {
  const auto set = generate_mazes({.size = 15, .seed = 3, .threads = 2}, 20, 10);
  ASSERT_EQ(set.train.size(), 20u);
  ASSERT_EQ(set.test.size(), 10u);
  std::set<std::vector<uint8_t>> different;
  for (const auto* mazes : {&set.train, &set.test})
    for (const auto& maze : *mazes) {
      const auto input = wide(maze.input);
      const auto paths = shortest_paths(input, 15);
      EXPECT_EQ(paths.length, maze.length);
      EXPECT_EQ(paths.count, 1);
      EXPECT_GE(maze.length, 40);
      EXPECT_EQ(std::ranges::count(maze.label, kPath), maze.length - 1);
      EXPECT_TRUE(is_shortest_path(input, wide(maze.label), 15));
      EXPECT_FALSE(is_shortest_path(input, input, 15));
      EXPECT_TRUE(different.insert(maze.input).second);
    }
  const auto alone = generate_mazes({.size = 15, .seed = 3, .threads = 1}, 20, 10);
  EXPECT_EQ(alone.test[4].label, set.test[4].label);
}

// 30 x 30: one maze in 5.5 accepted, wall share 0.385, length 119 (110-174), 28 junctions.
TEST(Maze, IsLikeTheTableOfItsSize) {
  const auto set = generate_mazes({.size = 30, .seed = 1}, 80, 1);
  double walls = 0, length = 0, junctions = 0, drawn = 0;
  for (const auto& maze : set.train) {
    walls += static_cast<double>(std::ranges::count(maze.input, kWall)) / 900;
    length += static_cast<double>(maze.length);
    junctions += static_cast<double>(maze.junctions);
    drawn += static_cast<double>(maze.discarded + 1);
  }
  EXPECT_NEAR(walls / 80, 0.385, 0.005);
  EXPECT_NEAR(length / 80, 119, 4);
  EXPECT_NEAR(junctions / 80, 28, 2);
  EXPECT_NEAR(drawn / 80, 5.5, 2);
}

TEST(Maze, EveryShortestPathCountsAndNothingElse) {
  const auto maze = from(
      "S.#"
      "..#"
      "#.G");
  EXPECT_EQ(shortest_paths(maze, 3).length, 4);
  EXPECT_EQ(shortest_paths(maze, 3).count, 2);
  EXPECT_TRUE(is_shortest_path(maze,
                               from("So#"
                                    ".o#"
                                    "#oG"),
                               3));
  EXPECT_TRUE(is_shortest_path(maze,
                               from("S.#"
                                    "oo#"
                                    "#oG"),
                               3));
  EXPECT_FALSE(is_shortest_path(maze,
                                from("So#"  // both ways
                                     "oo#"
                                     "#oG"),
                                3));
  EXPECT_FALSE(is_shortest_path(maze,
                                from("So#"  // a gap
                                     "o.#"
                                     "#oG"),
                                3));
  EXPECT_FALSE(is_shortest_path(maze,
                                from("So#"  // through a wall
                                     "..o"
                                     "#oG"),
                                3));
  EXPECT_FALSE(is_shortest_path(maze,
                                from("So#"  // another maze
                                     "#o#"
                                     "#oG"),
                                3));
  EXPECT_FALSE(is_shortest_path(maze,
                                from("oo#"  // the start is gone
                                     ".o#"
                                     "#.G"),
                                3));
  EXPECT_EQ(shortest_paths(from("S#G###..."), 3).length, -1);
}

TEST(Maze, WithoutAPossiblePathIsRefused) {
  EXPECT_EQ(refusal([] { complete({.size = 4}); }), "[maze] size must be 5 to 60, got 4");
  EXPECT_EQ(refusal([] { complete({.size = 5, .shortest = 25}); }),
            "[maze] the shortest path must be 2 to 24 steps, got 25");
  EXPECT_NE(refusal([] {
              Random random({1});
              generate_maze({.size = 5, .loops = 0, .shortest = 24}, random);
            }).find("ask for a shorter one"),
            std::string::npos);
  EXPECT_EQ(complete({.size = 10}).shortest, 20);
  EXPECT_EQ(complete({.size = 15}).loops, 8);
  EXPECT_EQ(complete({.size = 30}).shortest, 110);
}

}  // namespace
}  // namespace geores::puzzles
