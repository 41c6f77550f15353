// Trains a recursive model on a data set of puzzles.
#pragma once

#include "geores/train/communication/communicator.h"
#include "geores/train/puzzles/puzzle_run.h"
#include "geores/train/trainer.h"

namespace geores {

struct PuzzleResult {
  int64_t steps = 0;
  int64_t parameters = 0;   // without the puzzle table
  double seconds = 0;       // earlier legs of a resumed run included
  double step_seconds = 0;  // of a training step, without evaluations and checkpoints
  bool diverged = false;
  bool interrupted = false;             // stopped by the listener; no result was written
  nlohmann::json training = nullptr;    // the last line of training
  nlohmann::json evaluation = nullptr;  // the averaged weights after the last step

  nlohmann::json to_json() const;
};

// Refuses a batch size that is not divisible by the number of processes. Call this before they
// connect: the others would report a process that exits while they connect as lost.
void require_shares(const PuzzleConfig& config, int64_t processes);

// `config` gets the number of steps and of identifiers from the data. Several processes train
// together as in trainer.h.
PuzzleResult train_puzzles(PuzzleConfig config, const puzzles::Dataset& data,
                           const RunFolder& folder, const Listener& listener = {},
                           const Communicator& communicator = one_process());

}  // namespace geores
