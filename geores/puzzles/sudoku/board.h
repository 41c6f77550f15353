// Sudoku boards of 4 × 4 (boxes of 2 × 2), 6 × 6 (2 rows × 3 columns) and 9 × 9 (3 × 3).
#pragma once

#include <cstdint>
#include <vector>

namespace geores::puzzles {

struct SudokuShape {
  int size, box_rows, box_columns;
  int cells() const { return size * size; }
};

// 4, 6 or 9; others are refused.
SudokuShape sudoku_shape(int size);

using Board = std::vector<uint8_t>;  // row by row; 0 is blank, digits are 1 … size

// Tokens: 0 pad (never occurs), 1 blank, k + 1 for the digit k.
inline constexpr int kSudokuBlank = 1;
inline int sudoku_vocabulary(int size) { return size + 2; }
inline uint8_t sudoku_token(uint8_t value) { return static_cast<uint8_t>(value + kSudokuBlank); }

inline int clue_count(const Board& board) {
  int count = 0;
  for (const auto value : board) count += value != 0;
  return count;
}

}  // namespace geores::puzzles
