// A sudoku solver that rates the puzzles.
//   const auto found = solve_sudoku(shape, board);
//   found.solutions == 1     the puzzle is proper
//   found.rating             how hard it was
// Naked singles (a cell with one candidate) and hidden singles (a value with one cell in a row,
// column or box) to a fixed point; then a branch on the cell with fewest candidates, the lowest
// index among equals; all its values are tried. The rating is the number of values tried at
// branches until the search is exhausted, so it includes the proof that the solution is unique. It
// depends neither on the names of the digits nor on the order in which values are tried.
#pragma once

#include <cstdint>
#include <functional>

#include "geores/puzzles/random.h"
#include "geores/puzzles/sudoku/board.h"

namespace geores::puzzles {

struct SudokuSearch {
  int64_t solutions = 0;  // at most `stop_after`
  int64_t rating = 0;
  Board solution = {};  // the first one found
};

// Stops at the solution number `stop_after`; the rating is complete only if fewer were found.
SudokuSearch solve_sudoku(const SudokuShape& shape, const Board& board, int64_t stop_after = 2);

bool has_one_solution(const SudokuShape& shape, const Board& board);

// The board with the cells that singles alone fill; the others are blank.
Board fill_singles(const SudokuShape& shape, const Board& board);

// A random full board: the solver on an empty board, values tried in random order.
Board random_full_board(const SudokuShape& shape, Random& random);

// Whether rows, columns and boxes hold every digit once.
bool is_solved(const SudokuShape& shape, const Board& board);

}  // namespace geores::puzzles
