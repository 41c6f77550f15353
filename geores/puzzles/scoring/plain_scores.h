// Scores of predictors without a model on a test split, by the same Evaluation: the baselines.
//   copy             the input
//   frequent         sudoku: the digit that is most frequent in the training labels in every blank cell
//   singles          sudoku: the cells that naked and hidden singles fill (sudoku/solver.h)
//   demonstrations   ARC: the most frequent output of the task's demonstrations, the first among equals
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/puzzles/dataset.h"

namespace geores::puzzles {

struct PlainScore {
  std::string name, label;
  nlohmann::json results;  // Evaluation::results() without q_halt_accuracy
};
std::vector<PlainScore> plain_scores(const Dataset& data);

}  // namespace geores::puzzles
