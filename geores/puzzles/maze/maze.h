// Mazes with one shortest path, deterministic from the seed.
//   const auto maze = generate_maze({.size = 30}, random);
// A tree of open cells grows: of a list of open cells take the newest with probability 0.9, else a
// random one; open one of its closed neighbours that touches exactly one open cell, or drop the
// cell from the list if it has none. Then `loops` walls that separate exactly two open cells are
// opened. The start is a random open cell; the goal a random one of those whose shortest path is at
// least `shortest` steps long and the only one of its length. A maze without such a goal is
// discarded.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "geores/puzzles/random.h"

namespace geores::puzzles {

inline constexpr uint8_t kWall = 1, kFree = 2, kStart = 3, kGoal = 4, kPath = 5;
inline constexpr int kMazeVocabulary = 6;

struct MazeOptions {
  int size = 30;
  int64_t loops = -1;     // −1: 10 at 30, 8 at 15, 4 at 10, in between in proportion
  int64_t shortest = -1;  // −1: 110 at 30, 40 at 15, 20 at 10, in between in proportion
  uint64_t seed = 0;
  int threads = 0;  // 0: one for each core; the mazes do not depend on it
};

struct Maze {
  std::vector<uint8_t> input;  // tokens without the path
  std::vector<uint8_t> label;  // with it
  int64_t length = 0;          // steps from start to goal
  int64_t junctions = 0;       // cells of the path with more than two open neighbours
  int64_t discarded = 0;       // mazes drawn before this one
};

// With loops and shortest filled in; refuses what cannot be drawn.
MazeOptions complete(const MazeOptions& options);

Maze generate_maze(const MazeOptions& options, Random& random);

struct MazeSet {
  std::vector<Maze> train, test;
};

// All mazes are different.
MazeSet generate_mazes(const MazeOptions& options, int64_t train, int64_t test,
                       const std::function<void(int64_t, int64_t)>& progress = {});

// Steps of a shortest path from start to goal and how many there are; length −1 if there is none.
struct ShortestPaths {
  int64_t length = -1;
  double count = 0;
};
ShortestPaths shortest_paths(std::span<const int32_t> tokens, int size);

// Whether `answer` is the maze `input` with the cells of one shortest path marked, not necessarily
// the one of the label.
bool is_shortest_path(std::span<const int32_t> input, std::span<const int32_t> answer, int size);

}  // namespace geores::puzzles
