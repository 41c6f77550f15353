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

bool is_puzzle_evaluation(const std::string& run);

void evaluate_puzzle_run(const std::string& run, const PuzzleEvaluationFlags& flags, bool json);

}  // namespace geores::cli
