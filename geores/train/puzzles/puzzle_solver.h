// Inference of a recursive model on batches of puzzles: all act_steps passes from the initial
// state, without gradients. On a GPU they are recorded once as one CUDA graph.
#pragma once

#include "geores/model/recursive/recursive.h"
#include "geores/puzzles/dataset.h"
#include "geores/train/device/recorded_work.h"
#include "geores/train/run/run_folder.h"

namespace geores {

// A run on puzzles with its model on a device; refuses another run.
LoadedRun load_puzzle_run(const std::string& path, const std::string& device = "cpu");
Recursive& recursive_model(const LoadedRun& run);

class PuzzleSolver {
 public:
  // Batches have exactly `rows` rows; the model must outlive the solver.
  PuzzleSolver(Recursive& model, int64_t rows, const std::string& precision);

  // All tensors are on the CPU.
  struct Solved {
    Tensor predictions;  // (steps, B, T) int32: the arg max after each pass
    Tensor q_halt;       // (steps, B) float64
    Tensor lm_loss;      // (B) float64, after the last pass
  };
  Solved solve(const puzzles::Batch& batch);

 private:
  void work();

  Recursive& model_;
  std::string precision_;
  Tensor x_, y_, predictions_, q_halt_, lm_loss_;  // on the device, at fixed addresses
  RecordedWork work_;
};

}  // namespace geores
