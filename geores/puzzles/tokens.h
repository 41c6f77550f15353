// Grids as tokens on a square canvas of C × C cells, read row by row:
//   0 pad, 1 end, 2 + k for colour k.
// A grid of h × w has its first cell at (row, column); end tokens are in the row below and in the
// column right of it, if they are on the canvas; the corner between them and all else is pad.
#pragma once

#include <cstdint>
#include <span>

#include "geores/puzzles/grid.h"

namespace geores::puzzles {

inline constexpr int kPad = 0, kEnd = 1, kFirstColour = 2;
inline constexpr int kArcVocabulary = kFirstColour + kColours;

// Fills the canvas² tokens. The grid must be within the canvas.
void write_tokens(const Grid& grid, int canvas, int row, int column, std::span<uint8_t> tokens);

// The largest rectangle of colours at the origin, the one with fewest rows among equals; 0 × 0 if
// the first token is no colour. Predictions hold anything outside the end tokens, so the size of a
// predicted grid is not read from them.
Grid crop(std::span<const int32_t> tokens, int canvas);

}  // namespace geores::puzzles
