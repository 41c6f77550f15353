#include "geores/puzzles/sudoku/solver.h"

#include <algorithm>
#include <array>
#include <bit>

#include "geores/base/error.h"

namespace geores::puzzles {
namespace {

constexpr int most_cells = 81;
using Mask = uint16_t;  // bit v − 1 for the digit v

// Rows, columns and boxes of a shape, and the cells that share one of them with a cell.
struct Units {
  std::vector<std::array<uint8_t, 9>> units;
  std::array<std::vector<uint8_t>, most_cells> peers;

  explicit Units(const SudokuShape& shape) {
    const int n = shape.size;
    const auto add = [&](auto cell_of) {
      for (int u = 0; u < n; ++u) {
        auto& unit = units.emplace_back();
        for (int k = 0; k < n; ++k) unit[static_cast<std::size_t>(k)] = cell_of(u, k);
      }
    };
    add([&](int u, int k) { return static_cast<uint8_t>(u * n + k); });
    add([&](int u, int k) { return static_cast<uint8_t>(k * n + u); });
    const int boxes_across = n / shape.box_columns;
    add([&](int u, int k) {
      const int row = u / boxes_across * shape.box_rows + k / shape.box_columns;
      const int column = u % boxes_across * shape.box_columns + k % shape.box_columns;
      return static_cast<uint8_t>(row * n + column);
    });
    for (int cell = 0; cell < shape.cells(); ++cell) {
      auto& mine = peers[static_cast<std::size_t>(cell)];
      for (const auto& unit : units) {
        const auto end = unit.begin() + n;
        if (std::find(unit.begin(), end, cell) == end) continue;
        for (auto other = unit.begin(); other != end; ++other)
          if (*other != cell && std::ranges::find(mine, *other) == mine.end())
            mine.push_back(*other);
      }
    }
  }
};

const Units& units_of(const SudokuShape& shape) {
  static const Units four(sudoku_shape(4)), six(sudoku_shape(6)), nine(sudoku_shape(9));
  return shape.size == 4 ? four : shape.size == 6 ? six : nine;
}

class Solver {
 public:
  Solver(const SudokuShape& shape, int64_t stop_after, Random* random)
      : shape_(shape), units_(units_of(shape)), stop_after_(stop_after), random_(random) {}

  SudokuSearch run(const Board& board) {
    State state;
    if (begin(state, board)) explore(state);
    return std::move(found_);
  }

  Board singles(const Board& board) {
    State state;
    if (begin(state, board)) propagate(state);
    auto filled = board;
    for (std::size_t c = 0; c < filled.size(); ++c)
      if (state.assigned[c]) filled[c] = value_at(state, c);
    return filled;
  }

 private:
  struct State {
    std::array<Mask, most_cells> candidates;
    std::array<bool, most_cells> assigned{};
    int open = 0;  // cells that are not assigned
  };

  // Each returns false if the board turned out to be impossible.
  bool begin(State& state, const Board& board) {
    state.candidates.fill(static_cast<Mask>((1u << shape_.size) - 1));
    state.open = shape_.cells();
    for (int cell = 0; cell < shape_.cells(); ++cell) {
      const auto value = board[static_cast<std::size_t>(cell)];
      if (value != 0 && !assign(state, cell, static_cast<Mask>(1u << (value - 1)))) return false;
    }
    return true;
  }

  bool assign(State& state, int cell, Mask value) {
    const auto c = static_cast<std::size_t>(cell);
    if (state.assigned[c]) return state.candidates[c] == value;
    if ((state.candidates[c] & value) == 0) return false;
    state.candidates[c] = value;
    state.assigned[c] = true;
    --state.open;
    for (const auto peer : units_.peers[c]) {
      auto& left = state.candidates[peer];
      if ((left & value) == 0) continue;
      left = static_cast<Mask>(left & ~value);
      if (left == 0) return false;
      if (std::has_single_bit(left) && !state.assigned[peer] && !assign(state, peer, left))
        return false;
    }
    return true;
  }

  bool assign_hidden_singles(State& state, bool& changed) {
    const auto n = static_cast<std::size_t>(shape_.size);
    for (const auto& unit : units_.units) {
      Mask once = 0, more = 0;
      for (std::size_t k = 0; k < n; ++k) {
        const auto candidates = state.candidates[unit[k]];
        more = static_cast<Mask>(more | (once & candidates));
        once = static_cast<Mask>(once | candidates);
      }
      if (once != (1u << n) - 1) return false;  // a value has no cell left
      const auto single = static_cast<Mask>(once & ~more);
      if (single == 0) continue;
      for (std::size_t k = 0; k < n; ++k) {
        const auto value = static_cast<Mask>(state.candidates[unit[k]] & single);
        if (value == 0 || state.assigned[unit[k]]) continue;
        if (!std::has_single_bit(value) || !assign(state, unit[k], value)) return false;
        changed = true;
      }
    }
    return true;
  }

  bool propagate(State& state) {
    for (bool changed = true; changed;) {
      changed = false;
      if (!assign_hidden_singles(state, changed)) return false;
    }
    return true;
  }

  void explore(State& state) {
    if (!propagate(state)) return;
    if (state.open == 0) {
      if (found_.solutions++ == 0) remember(state);
      return;
    }
    const int cell = cell_with_fewest_candidates(state);
    for (const auto value : values_of(state.candidates[static_cast<std::size_t>(cell)])) {
      ++found_.rating;
      State next = state;
      if (assign(next, cell, value)) explore(next);
      if (found_.solutions >= stop_after_) return;
    }
  }

  int cell_with_fewest_candidates(const State& state) const {
    int best = -1, fewest = 10;
    for (int cell = 0; cell < shape_.cells(); ++cell) {
      const auto c = static_cast<std::size_t>(cell);
      if (state.assigned[c]) continue;
      const int count = std::popcount(state.candidates[c]);
      if (count < fewest) best = cell, fewest = count;
    }
    return best;
  }

  std::vector<Mask> values_of(Mask candidates) {
    std::vector<Mask> values;
    for (int bit = 0; bit < shape_.size; ++bit)
      if ((candidates >> bit & 1) != 0) values.push_back(static_cast<Mask>(1u << bit));
    if (random_) random_->shuffle(std::span(values));
    return values;
  }

  static uint8_t value_at(const State& state, std::size_t cell) {
    return static_cast<uint8_t>(std::countr_zero(state.candidates[cell]) + 1);
  }

  void remember(const State& state) {
    found_.solution.resize(static_cast<std::size_t>(shape_.cells()));
    for (std::size_t c = 0; c < found_.solution.size(); ++c)
      found_.solution[c] = value_at(state, c);
  }

  const SudokuShape& shape_;
  const Units& units_;
  int64_t stop_after_;
  Random* random_;
  SudokuSearch found_;
};

}  // namespace

SudokuShape sudoku_shape(int size) {
  require(size == 4 || size == 6 || size == 9, "sudoku", "size must be 4, 6 or 9, got {}", size);
  return size == 4 ? SudokuShape{4, 2, 2} : size == 6 ? SudokuShape{6, 2, 3} : SudokuShape{9, 3, 3};
}

namespace {

void check_board(const SudokuShape& shape, const Board& board) {
  require(std::cmp_equal(board.size(), shape.cells()), "sudoku",
          "a board of size {} has {} cells, got {}", shape.size, shape.cells(), board.size());
  for (const auto value : board)
    require(value <= shape.size, "sudoku", "a board of size {} cannot hold {}", shape.size, value);
}

}  // namespace

Board fill_singles(const SudokuShape& shape, const Board& board) {
  check_board(shape, board);
  return Solver(shape, 1, nullptr).singles(board);
}

SudokuSearch solve_sudoku(const SudokuShape& shape, const Board& board, int64_t stop_after) {
  check_board(shape, board);
  return Solver(shape, stop_after, nullptr).run(board);
}

bool has_one_solution(const SudokuShape& shape, const Board& board) {
  return solve_sudoku(shape, board).solutions == 1;
}

Board random_full_board(const SudokuShape& shape, Random& random) {
  const Board empty(static_cast<std::size_t>(shape.cells()), 0);
  return Solver(shape, 1, &random).run(empty).solution;
}

bool is_solved(const SudokuShape& shape, const Board& board) {
  const auto n = static_cast<std::size_t>(shape.size);
  return std::ranges::all_of(units_of(shape).units, [&](const auto& unit) {
    unsigned seen = 0;
    for (std::size_t k = 0; k < n; ++k) seen |= 1u << board[unit[k]];
    return seen == (1u << (n + 1)) - 2;
  });
}

}  // namespace geores::puzzles
