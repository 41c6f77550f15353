#include "geores/puzzles/sudoku/generator.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "geores/base/error.h"
#include "geores/base/parallel.h"
#include "geores/puzzles/sudoku/shuffle.h"

namespace geores::puzzles {
namespace {

std::vector<std::size_t> shuffled_cells(const SudokuShape& shape, Random& random) {
  std::vector<std::size_t> cells(static_cast<std::size_t>(shape.cells()));
  std::iota(cells.begin(), cells.end(), std::size_t{0});
  random.shuffle(std::span(cells));
  return cells;
}

void remove_clues(const SudokuShape& shape, Board& board, int64_t fewest, Random& random) {
  auto clues = clue_count(board);
  for (const auto cell : shuffled_cells(shape, random)) {
    if (board[cell] == 0) continue;
    if (clues <= fewest) return;
    const auto value = std::exchange(board[cell], uint8_t{0});
    if (has_one_solution(shape, board)) {
      --clues;
    } else {
      board[cell] = value;
    }
  }
}

// A neighbouring puzzle with the same solution.
Board neighbour(const SudokuShape& shape, const Sudoku& sudoku, int64_t fewest, Random& random) {
  auto board = sudoku.board;
  auto taken = 1 + random.below(3);
  for (const auto cell : shuffled_cells(shape, random)) {
    if (taken == 0) break;
    if (std::exchange(board[cell], uint8_t{0}) != 0) --taken;
  }
  for (const auto cell : shuffled_cells(shape, random)) {
    if (board[cell] != 0) continue;
    if (has_one_solution(shape, board)) break;
    board[cell] = sudoku.solution[cell];
  }
  remove_clues(shape, board, fewest, random);
  return board;
}

// The key that a test puzzle must not share with a training puzzle.
Board form_of(const SudokuShape& shape, const Sudoku& sudoku) {
  return shape.size <= 6 ? canonical_form(shape, sudoku.board) : sudoku.board;
}

// Size 4 has so few forms that training would use them all up.
bool is_test_form(const Board& form) {
  uint64_t hash = 0;
  for (const auto value : form) hash = manifold::SplitMix64(hash ^ value).next();
  return hash % 4 == 0;
}

class Collection {
 public:
  Collection(const SudokuShape& shape, const SudokuOptions& options)
      : shape_(shape), options_(options) {}

  // `count` puzzles; their draws are those of the series `use`.
  std::vector<Sudoku> draw(uint64_t use, int64_t count,
                           const std::function<void(int64_t)>& progress) {
    const bool test = use == kTest;
    std::vector<Sudoku> kept;
    for (int64_t attempt = 0, drawn = 0; std::cmp_less(kept.size(), count);) {
      require(attempt < 40, "sudoku",
              "only {} of {} different puzzles of size {} found after {} draws; ask for fewer",
              kept.size(), count, shape_.size, drawn);
      ++attempt;
      // Many at once, so that threads have work; which are kept depends on their order only.
      const auto missing = count - static_cast<int64_t>(kept.size());
      const auto many = std::clamp<int64_t>(missing, 1, 64);
      std::vector<Sudoku> found(static_cast<std::size_t>(many));
      in_parallel(many, options_.threads, [&](int64_t i) {
        Random random({options_.seed, use, static_cast<uint64_t>(drawn + i)});
        const auto& rounds = options_.rounds;
        found[static_cast<std::size_t>(i)] =
            generate_sudoku(shape_, rounds[static_cast<std::size_t>(drawn + i) % rounds.size()],
                            options_.clues, random);
      });
      drawn += many;
      const auto before = kept.size();
      for (auto& sudoku : found)
        if (accept(sudoku, test)) kept.push_back(std::move(sudoku));
      if (kept.size() > before) attempt = 0;
      progress(static_cast<int64_t>(kept.size()));
    }
    return kept;
  }

  static constexpr uint64_t kTrain = 1, kTest = 2;

 private:
  bool accept(const Sudoku& sudoku, bool test) {
    const auto form = form_of(shape_, sudoku);
    if (shape_.size == 4) {
      if (is_test_form(form) != test) return false;
    } else if (test) {
      if (solutions_.contains(sudoku.solution) || forms_.contains(form)) return false;
    } else {
      solutions_.insert(sudoku.solution);
      forms_.insert(form);
    }
    return boards_.insert(sudoku.board).second;
  }

  const SudokuShape& shape_;
  const SudokuOptions& options_;
  std::set<Board> boards_;             // of all
  std::set<Board> solutions_, forms_;  // of the training puzzles
};

}  // namespace

Sudoku generate_sudoku(const SudokuShape& shape, int64_t rounds, int64_t clues, Random& random) {
  Sudoku sudoku;
  sudoku.solution = random_full_board(shape, random);
  sudoku.board = sudoku.solution;
  remove_clues(shape, sudoku.board, clues, random);
  sudoku.rating = solve_sudoku(shape, sudoku.board).rating;
  for (int64_t round = 0; round < rounds; ++round) {
    auto board = neighbour(shape, sudoku, clues, random);
    const auto rating = solve_sudoku(shape, board).rating;
    if (rating < sudoku.rating) continue;
    sudoku.board = std::move(board);
    sudoku.rating = rating;
  }
  return sudoku;
}

SudokuSet generate_sudokus(const SudokuOptions& options, int64_t train, int64_t test,
                           const std::function<void(int64_t, int64_t)>& progress) {
  const auto shape = sudoku_shape(options.size);
  require(train >= 1 && test >= 1, "sudoku", "train and test must be >= 1, got {} and {}", train,
          test);
  require(!options.rounds.empty(), "sudoku", "rounds must have a value");
  for (const auto rounds : options.rounds)
    require(rounds >= 0, "sudoku", "rounds must be >= 0, got {}", rounds);
  require(options.clues >= 0 && options.clues < shape.cells(), "sudoku",
          "clues must be 0 to {}, got {}", shape.cells() - 1, options.clues);
  Collection collection(shape, options);
  SudokuSet set;
  const auto report = [&](int64_t done) {
    if (progress) progress(done, train + test);
  };
  set.train = collection.draw(Collection::kTrain, train, report);
  set.test = collection.draw(Collection::kTest, test, [&](int64_t done) { report(train + done); });
  return set;
}

}  // namespace geores::puzzles
