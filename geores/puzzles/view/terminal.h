// Puzzles as text for a terminal.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "geores/puzzles/dataset.h"
#include "geores/puzzles/grid.h"

namespace geores::puzzles {

// A cell as it is shown: its text (two columns) and its colour.
struct CellLook {
  std::string text;
  std::string background;  // "#rrggbb"
  std::string ink;         // "#rrggbb", colour of the text
};

// How a token of a kind of puzzle looks; kNotScored is shown like a pad.
CellLook look_of(const std::string& kind, int32_t token);

// A canvas of tokens, one line for each row. color: 24-bit escape sequences, else texts alone.
std::string draw(const DatasetInfo& info, std::span<const int32_t> tokens, bool color);

// A grid of colours 0..9.
std::string draw(const Grid& grid, bool color);

// Blocks of lines next to each other, with titles above.
std::string side_by_side(const std::vector<std::pair<std::string, std::string>>& titled);

}  // namespace geores::puzzles
