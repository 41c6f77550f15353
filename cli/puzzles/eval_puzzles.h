// The part of `geores eval` for runs on puzzles.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "geores/train/puzzles/puzzle_evaluation.h"

namespace geores::cli {

struct PuzzleEvaluationFlags {
  PuzzleEvaluationOptions options;
  std::string data, submission, device = "cpu";
  int64_t batch = 0;
};

void add_puzzle_flags(CLI::App& command, PuzzleEvaluationFlags& flags);

void evaluate_puzzle_run(const LoadedRun& run, const std::string& path,
                         const PuzzleEvaluationFlags& flags, bool json);

}  // namespace geores::cli
