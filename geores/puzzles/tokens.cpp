#include "geores/puzzles/tokens.h"

#include <algorithm>

#include "geores/base/error.h"

namespace geores::puzzles {

void write_tokens(const Grid& grid, int canvas, int row, int column, std::span<uint8_t> tokens) {
  require(row >= 0 && column >= 0 && row + grid.height <= canvas && column + grid.width <= canvas,
          "puzzles", "a grid of {} x {} at ({}, {}) is not within a canvas of {} x {}", grid.height,
          grid.width, row, column, canvas, canvas);
  std::ranges::fill(tokens, static_cast<uint8_t>(kPad));
  const auto at = [&](int i, int j) -> uint8_t& {
    return tokens[static_cast<std::size_t>(i * canvas + j)];
  };
  for (int i = 0; i < grid.height; ++i)
    for (int j = 0; j < grid.width; ++j)
      at(row + i, column + j) = static_cast<uint8_t>(kFirstColour + grid.at(i, j));
  if (row + grid.height < canvas)
    for (int j = 0; j < grid.width; ++j) at(row + grid.height, column + j) = kEnd;
  if (column + grid.width < canvas)
    for (int i = 0; i < grid.height; ++i) at(row + i, column + grid.width) = kEnd;
}

Grid crop(std::span<const int32_t> tokens, int canvas) {
  const auto is_colour = [](int32_t token) {
    return token >= kFirstColour && token < kArcVocabulary;
  };
  int width = canvas, best_rows = 0, best_columns = 0;
  for (int rows = 1; rows <= canvas; ++rows) {
    const auto* line = tokens.data() + (rows - 1) * canvas;
    width = static_cast<int>(std::find_if_not(line, line + width, is_colour) - line);
    if (rows * width > best_rows * best_columns) best_rows = rows, best_columns = width;
  }
  Grid grid{best_rows, best_columns, {}};
  for (int i = 0; i < best_rows; ++i)
    for (int j = 0; j < best_columns; ++j)
      grid.cells.push_back(
          static_cast<uint8_t>(tokens[static_cast<std::size_t>(i * canvas + j)] - kFirstColour));
  return grid;
}

}  // namespace geores::puzzles
