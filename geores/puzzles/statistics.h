// Statistics of generated puzzles, as tables for a terminal.
#pragma once

#include <span>
#include <string>

#include "geores/base/pages/table.h"
#include "geores/puzzles/maze/maze.h"
#include "geores/puzzles/sudoku/generator.h"

namespace geores::puzzles {

// Clues, rating (mean, median, 90 %, largest), share without branching; a row for each split.
Table sudoku_statistics(const SudokuSet& set);

// Share of walls, length of the path, junctions on the way, mazes drawn for one that is kept.
Table maze_statistics(const MazeSet& set);

}  // namespace geores::puzzles
