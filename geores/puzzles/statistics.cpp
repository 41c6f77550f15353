#include "geores/puzzles/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace geores::puzzles {
namespace {

template <class Puzzles, class Value>
std::vector<double> sorted_values(const Puzzles& puzzles, Value value) {
  std::vector<double> values;
  for (const auto& puzzle : puzzles) values.push_back(static_cast<double>(value(puzzle)));
  std::ranges::sort(values);
  return values;
}

double average(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

std::string with_range(const std::vector<double>& sorted, const char* pattern) {
  return fmt::format(fmt::runtime(pattern), average(sorted), sorted.front(), sorted.back());
}

}  // namespace

Table sudoku_statistics(const SudokuSet& set) {
  Table table{"",
              {"split", "puzzles", "clues mean (range)", "rating mean", "median", "90 %", "largest",
               "no branching"},
              {}};
  for (const auto* puzzles : {&set.train, &set.test}) {
    const auto clues = sorted_values(*puzzles, [](const Sudoku& s) { return clue_count(s.board); });
    const auto rating = sorted_values(*puzzles, [](const Sudoku& s) { return s.rating; });
    const auto easy = std::ranges::count(rating, 0.0);
    table.rows.push_back(
        {puzzles == &set.train ? "train" : "test", std::to_string(puzzles->size()),
         with_range(clues, "{:.1f} ({:.0f}-{:.0f})"), fmt::format("{:.2f}", average(rating)),
         fmt::format("{:.0f}", quantile(rating, 0.5)), fmt::format("{:.0f}", quantile(rating, 0.9)),
         fmt::format("{:.0f}", rating.back()),
         fmt::format("{:.0f} %",
                     100.0 * static_cast<double>(easy) / static_cast<double>(rating.size()))});
  }
  return table;
}

Table maze_statistics(const MazeSet& set) {
  Table table{
      "", {"split", "mazes", "wall share", "path mean (range)", "junctions", "drawn for one"}, {}};
  for (const auto* mazes : {&set.train, &set.test}) {
    const auto walls = sorted_values(*mazes, [](const Maze& maze) {
      return static_cast<double>(std::ranges::count(maze.input, kWall)) /
             static_cast<double>(maze.input.size());
    });
    const auto length = sorted_values(*mazes, [](const Maze& maze) { return maze.length; });
    const auto junctions = sorted_values(*mazes, [](const Maze& maze) { return maze.junctions; });
    const auto drawn = sorted_values(*mazes, [](const Maze& maze) { return maze.discarded + 1; });
    table.rows.push_back(
        {mazes == &set.train ? "train" : "test", std::to_string(mazes->size()),
         fmt::format("{:.3f}", average(walls)), with_range(length, "{:.1f} ({:.0f}-{:.0f})"),
         fmt::format("{:.1f}", average(junctions)), fmt::format("{:.1f}", average(drawn))});
  }
  return table;
}

}  // namespace geores::puzzles
