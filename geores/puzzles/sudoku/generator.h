// Sudokus with one solution, deterministic from the seed.
//   SudokuOptions options{.size = 9, .rounds = {0, 20}};
//   const auto puzzles = generate_sudokus(options, 1000, 2000);
// A puzzle: a random full board; clues are removed in random order while the solution stays unique,
// so no clue can be spared (the puzzle is minimal). `rounds` of hardening follow: take out 1 to 3
// clues, put back random cells of the solution until it is unique again, minimise, and keep the
// result if its rating is not lower. 20 rounds give puzzles about as hard as Sudoku-Extreme.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "geores/puzzles/random.h"
#include "geores/puzzles/sudoku/solver.h"

namespace geores::puzzles {

struct SudokuOptions {
  int size = 9;
  std::vector<int64_t> rounds = {20};  // of several, the draws take one after the other
  int64_t clues = 0;                   // stop removing at so many; 0: minimal
  uint64_t seed = 0;
  int threads = 0;  // 0: one for each core; the puzzles do not depend on it
};

struct Sudoku {
  Board board, solution;
  int64_t rating = 0;
};

// clues: stop removing at so many, 0: minimal.
Sudoku generate_sudoku(const SudokuShape& shape, int64_t rounds, int64_t clues, Random& random);

struct SudokuSet {
  std::vector<Sudoku> train, test;
};

// All puzzles are different, and no full board of the test puzzles is one of the training puzzles.
// Sizes 4 and 6: no test puzzle is a shuffle of a training puzzle. (Of size 4 there are only 36
// minimal puzzles that are no shuffles of each other; a quarter of them is kept for the test.)
SudokuSet generate_sudokus(const SudokuOptions& options, int64_t train, int64_t test,
                           const std::function<void(int64_t, int64_t)>& progress = {});

}  // namespace geores::puzzles
