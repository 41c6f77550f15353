// A shuffle turns a sudoku into another one that is as hard:
//   new[i][j] = digit[old[rows[i]][columns[j]]]
// where old is transposed first with probability ½ if boxes are square; bands (rows of boxes) are
// permuted and rows within each band, columns likewise.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "geores/puzzles/random.h"
#include "geores/puzzles/sudoku/board.h"

namespace geores::puzzles {

struct SudokuShuffle {
  int size = 9;
  bool transpose = false;
  std::vector<uint8_t> rows, columns;  // permutations of 0 … size − 1
  std::vector<uint8_t> digit;          // digit[0] = 0, a permutation of 1 … size

  static SudokuShuffle draw(const SudokuShape& shape, Random& random);
  // The shuffle of a data set: a function of its seed, the puzzle and the number of the variant.
  static SudokuShuffle draw(int size, uint64_t seed, uint64_t puzzle, uint64_t variant);

  Board apply(const Board& board) const;
  void apply_to_tokens(std::span<uint8_t> tokens) const;  // blank stays blank
};

// The smallest of all boards that shuffles of this one give, digits named in order of appearance:
// equal for two boards if one is a shuffle of the other. For sizes 4 and 6.
Board canonical_form(const SudokuShape& shape, const Board& board);

}  // namespace geores::puzzles
