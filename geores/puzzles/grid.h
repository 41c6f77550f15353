// A grid of colours, as in ARC: up to 30 × 30 cells, colours 0..9.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace geores::puzzles {

inline constexpr int kLargestGrid = 30;
inline constexpr int kColours = 10;

struct Grid {
  int height = 0, width = 0;
  std::vector<uint8_t> cells = {};  // row by row

  uint8_t at(int row, int column) const {
    return cells[static_cast<std::size_t>(row * width + column)];
  }
  bool empty() const { return cells.empty(); }
  friend bool operator==(const Grid&, const Grid&) = default;
};

struct Pair {
  Grid input, output;
  friend bool operator==(const Pair&, const Pair&) = default;
};

// The eight symmetries of a square; for t = 1, 3, 6, 7 an h × w grid becomes w × h:
//   0 a[i, j]             4 a[i, w−1−j]         left and right exchanged
//   1 a[j, w−1−i]         5 a[h−1−i, j]         top and bottom exchanged
//   2 a[h−1−i, w−1−j]     6 a[j, i]             transposed
//   3 a[h−1−j, i]         7 a[h−1−j, w−1−i]     transposed along the other diagonal
// 1..3 are rotations, 4..7 reflections.
Grid dihedral(const Grid& grid, int t);
inline int inverse_dihedral(int t) { return t == 1 ? 3 : t == 3 ? 1 : t; }

// SHA-256 of the bytes height, width, cells.
std::string grid_hash(const Grid& grid);
// SHA-256 of the sorted, |-joined strings grid_hash(input)|grid_hash(output).
std::string puzzle_hash(const std::vector<Pair>& pairs);

nlohmann::json to_json(const Grid& grid);  // [[0, 7], [7, 0]]

}  // namespace geores::puzzles
