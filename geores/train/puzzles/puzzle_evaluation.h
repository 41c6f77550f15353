// How well a recursive model solves the test puzzles of a data set. Every row gets all act_steps
// passes from the initial state; the last one counts. The results are those of puzzles::Evaluation
// (exact rows, correct cells, by difficulty, both pass@k for ARC) and
//   lm_loss           mean over rows
// mean pass after which q_halt signals a halt (the last one if it never does)
// share of rows that have signalled a halt by each pass
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "geores/train/communication/communicator.h"
#include "geores/train/puzzles/puzzle_solver.h"

namespace geores {

struct PuzzleEvaluationOptions {
  int64_t rows = 0;                  // number of leading rows of the test set; 0: all
  int64_t votes = 0;                 // number of leading variants of a task; 0: all
  std::string identifiers = "kept";  // kept, blank or shuffled: how much is memory?
  uint64_t seed = 0;                 // of the shuffle
  bool submission = false;           // for ARC: adds "submission"
};

const std::vector<std::string>& identifier_controls();

// Several processes share the batches: rank i mod size solves batch i. All get the same results.
nlohmann::json evaluate_puzzles(const puzzles::Dataset& data, PuzzleSolver& solver, int64_t batch,
                                const PuzzleEvaluationOptions& options,
                                const std::function<void(int64_t done, int64_t all)>& progress = {},
                                const Communicator& communicator = one_process());

}  // namespace geores
