#include "geores/puzzles/maze/maze.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "geores/base/error.h"
#include "geores/base/parallel.h"

namespace geores::puzzles {
namespace {

// Calls f with each neighbour of a cell.
template <class F>
void for_neighbours(int cell, int size, F f) {
  const int row = cell / size, column = cell % size;
  if (row > 0) f(cell - size);
  if (row + 1 < size) f(cell + size);
  if (column > 0) f(cell - 1);
  if (column + 1 < size) f(cell + 1);
}

struct PathSearch {
  std::vector<int> distance;  // −1: not reached
  std::vector<double> count;  // of shortest paths; doubles, because there may be very many
  std::vector<int> previous;  // on one of them
};

template <class IsOpen>
PathSearch breadth_first(int start, int size, IsOpen is_open) {
  const auto cells = static_cast<std::size_t>(size * size);
  PathSearch search{std::vector<int>(cells, -1), std::vector<double>(cells, 0),
                    std::vector<int>(cells, -1)};
  const auto at = [](auto& values, int cell) -> auto& {
    return values[static_cast<std::size_t>(cell)];
  };
  std::vector<int> queue{start};
  at(search.distance, start) = 0;
  at(search.count, start) = 1;
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const int cell = queue[next];
    for_neighbours(cell, size, [&](int other) {
      if (!is_open(other)) return;
      if (at(search.distance, other) < 0) {
        at(search.distance, other) = at(search.distance, cell) + 1;
        at(search.previous, other) = cell;
        queue.push_back(other);
      }
      if (at(search.distance, other) == at(search.distance, cell) + 1)
        at(search.count, other) += at(search.count, cell);
    });
  }
  return search;
}

class Drawing {
 public:
  Drawing(const MazeOptions& options, Random& random)
      : options_(options),
        random_(random),
        size_(options.size),
        open_(static_cast<std::size_t>(size_ * size_)) {}

  // False if no goal is far enough and reached by one path only.
  bool draw(Maze& maze) {
    grow_tree();
    open_loops();
    std::vector<int> free;
    for (int cell = 0; cell < size_ * size_; ++cell)
      if (is_open(cell)) free.push_back(cell);
    const int start = any(free);
    const auto search = breadth_first(start, size_, [&](int cell) { return is_open(cell); });
    std::vector<int> goals;
    for (const int cell : free) {
      const auto c = static_cast<std::size_t>(cell);
      if (search.distance[c] >= options_.shortest && search.count[c] == 1) goals.push_back(cell);
    }
    if (goals.empty()) return false;
    write(maze, start, any(goals), search);
    return true;
  }

 private:
  bool is_open(int cell) const { return open_[static_cast<std::size_t>(cell)]; }
  void open(int cell) { open_[static_cast<std::size_t>(cell)] = true; }
  int any(const std::vector<int>& cells) {
    return cells[static_cast<std::size_t>(random_.below(static_cast<int64_t>(cells.size())))];
  }
  int open_neighbours(int cell) const {
    int count = 0;
    for_neighbours(cell, size_, [&](int other) { count += is_open(other); });
    return count;
  }

  void grow_tree() {
    std::vector<int> list{static_cast<int>(random_.below(size_ * size_))};
    open(list.front());
    while (!list.empty()) {
      const auto count = static_cast<int64_t>(list.size());
      const auto taken = random_.uniform() < 0.9 ? count - 1 : random_.below(count);
      std::vector<int> closed;
      for_neighbours(list[static_cast<std::size_t>(taken)], size_, [&](int other) {
        if (!is_open(other) && open_neighbours(other) == 1) closed.push_back(other);
      });
      if (closed.empty()) {
        list.erase(list.begin() + taken);
      } else {
        list.push_back(any(closed));
        open(list.back());
      }
    }
  }

  void open_loops() {
    for (int64_t opened = 0; opened < options_.loops; ++opened) {
      std::vector<int> walls;
      for (int cell = 0; cell < size_ * size_; ++cell)
        if (!is_open(cell) && open_neighbours(cell) == 2) walls.push_back(cell);
      if (walls.empty()) return;
      open(any(walls));
    }
  }

  void write(Maze& maze, int start, int goal, const PathSearch& search) {
    maze.input.resize(open_.size());
    for (std::size_t cell = 0; cell < open_.size(); ++cell)
      maze.input[cell] = open_[cell] ? kFree : kWall;
    maze.input[static_cast<std::size_t>(start)] = kStart;
    maze.input[static_cast<std::size_t>(goal)] = kGoal;
    maze.label = maze.input;
    maze.length = search.distance[static_cast<std::size_t>(goal)];
    for (int cell = search.previous[static_cast<std::size_t>(goal)]; cell != start;
         cell = search.previous[static_cast<std::size_t>(cell)]) {
      maze.label[static_cast<std::size_t>(cell)] = kPath;
      maze.junctions += open_neighbours(cell) > 2;
    }
  }

  const MazeOptions& options_;
  Random& random_;
  int size_;
  std::vector<bool> open_;
};

// Values that are known to work at 10, 15 and 30, and lines between them.
int64_t between(int size, const std::array<double, 3>& at_10_15_30) {
  const auto [low, middle, high] = at_10_15_30;
  const double value = size <= 15 ? low + (middle - low) * (size - 10) / 5
                                  : middle + (high - middle) * (size - 15) / 15;
  return std::max<int64_t>(0, std::lround(value));
}

int find_token(std::span<const int32_t> tokens, int32_t token) {
  const auto found = std::ranges::find(tokens, token);
  return found == tokens.end() ? -1 : static_cast<int>(found - tokens.begin());
}

}  // namespace

MazeOptions complete(const MazeOptions& options) {
  auto result = options;
  require(options.size >= 5 && options.size <= 60, "maze", "size must be 5 to 60, got {}",
          options.size);
  if (result.loops < 0) result.loops = between(options.size, {4, 8, 10});
  if (result.shortest < 0)
    result.shortest = std::max<int64_t>(2, between(options.size, {20, 40, 110}));
  require(result.shortest >= 2 && result.shortest < options.size * options.size, "maze",
          "the shortest path must be 2 to {} steps, got {}", options.size * options.size - 1,
          result.shortest);
  return result;
}

Maze generate_maze(const MazeOptions& options, Random& random) {
  constexpr int64_t most_attempts = 20000;
  Maze maze;
  for (; maze.discarded < most_attempts; ++maze.discarded)
    if (Drawing(options, random).draw(maze)) return maze;
  fail("maze", "no maze of {0} x {0} with a path of {1} steps in {2} draws; ask for a shorter one",
       options.size, options.shortest, most_attempts);
}

MazeSet generate_mazes(const MazeOptions& given, int64_t train, int64_t test,
                       const std::function<void(int64_t, int64_t)>& progress) {
  const auto options = complete(given);
  require(train >= 1 && test >= 1, "maze", "train and test must be >= 1, got {} and {}", train,
          test);
  std::set<std::vector<uint8_t>> known;
  std::vector<Maze> all;
  int64_t drawn = 0;
  while (std::cmp_less(all.size(), train + test)) {
    const auto many = std::clamp<int64_t>(train + test - static_cast<int64_t>(all.size()), 1, 128);
    std::vector<Maze> found(static_cast<std::size_t>(many));
    in_parallel(many, options.threads, [&](int64_t i) {
      Random random({options.seed, 0x3a2e, static_cast<uint64_t>(drawn + i)});
      found[static_cast<std::size_t>(i)] = generate_maze(options, random);
    });
    drawn += many;
    for (auto& maze : found)
      if (known.insert(maze.input).second) all.push_back(std::move(maze));
    require(drawn < 100 * (train + test) + 1000, "maze", "only {} of {} different mazes found",
            all.size(), train + test);
    if (progress) progress(static_cast<int64_t>(all.size()), train + test);
  }
  MazeSet set;
  set.test.assign(std::make_move_iterator(all.begin() + train), std::make_move_iterator(all.end()));
  all.resize(static_cast<std::size_t>(train));
  set.train = std::move(all);
  return set;
}

ShortestPaths shortest_paths(std::span<const int32_t> tokens, int size) {
  const int start = find_token(tokens, kStart), goal = find_token(tokens, kGoal);
  if (start < 0 || goal < 0) return {};
  const auto search = breadth_first(
      start, size, [&](int cell) { return tokens[static_cast<std::size_t>(cell)] != kWall; });
  return {search.distance[static_cast<std::size_t>(goal)],
          search.count[static_cast<std::size_t>(goal)]};
}

bool is_shortest_path(std::span<const int32_t> input, std::span<const int32_t> answer, int size) {
  int64_t marked = 0;
  for (std::size_t cell = 0; cell < input.size(); ++cell) {
    const bool on_path = answer[cell] == kPath;
    if (on_path ? input[cell] != kFree : answer[cell] != input[cell]) return false;
    marked += on_path;
  }
  const auto shortest = shortest_paths(input, size);
  // So many cells are just enough for a shortest path; so if the goal is reached on marked cells
  // alone, they are one.
  if (shortest.length < 1 || marked != shortest.length - 1) return false;
  const int start = find_token(input, kStart), goal = find_token(input, kGoal);
  const auto on_marked = breadth_first(start, size, [&](int cell) {
    return cell == goal || answer[static_cast<std::size_t>(cell)] == kPath;
  });
  return on_marked.distance[static_cast<std::size_t>(goal)] >= 0;
}

}  // namespace geores::puzzles
