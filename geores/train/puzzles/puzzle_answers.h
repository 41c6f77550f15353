// A trained recursive model answers a puzzle from a file: an ARC task of its data set, a sudoku or
// a maze. Errors are one line, for example:
//   [hard.txt] a sudoku of this run has 81 cells, the file has 80
//   [x.json] task 'x' is not in the run's data set: the model depends on the task's identifier
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/puzzles/dataset.h"
#include "geores/puzzles/scoring/vote.h"
#include "geores/puzzles/view/page.h"

namespace geores {

struct PuzzleQuestion {
  std::string file;
  std::string task = {};  // for a file of many ARC tasks
  int64_t votes = 32;     // number of variants of an ARC task that vote
  std::string device = "cpu";
};

struct PuzzleAnswers {
  puzzles::DatasetInfo info;
  std::string title;
  std::vector<puzzles::Solving> solvings;                      // ARC: each test, untransformed
  std::vector<std::vector<puzzles::Candidate>> rankings = {};  // ARC: by test
  nlohmann::json submission = nullptr;                         // ARC

  std::string drawn(bool color) const;  // for a terminal
  std::string page() const;             // HTML
  nlohmann::json to_json() const;
};

PuzzleAnswers solve_puzzle_file(const std::string& run, const PuzzleQuestion& question);

// Tokens of a puzzle as text. Sudoku: digits, '.', '_' or 0 for a blank; blanks, '|', '-' and '+' are
// skipped. Maze: one line a row of '#', ' ' (or '.'), 'S' and 'G'.
std::vector<int32_t> puzzle_from_text(const puzzles::DatasetInfo& info, const std::string& text,
                                      const std::string& where);

}  // namespace geores
