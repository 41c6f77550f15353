// ARC tasks as they are published: SUBSET_challenges.json holds demonstrations and test inputs,
// SUBSET_solutions.json the test outputs.
//   {"007bbfb7": {"test": [{"input": [[7, 0], [0, 7]]}], "train": [{"input": …, "output": …}]}, …}
//   {"007bbfb7": [[[7, 0], [0, 7]]], …}
// Reading is strict. One line names the file, the task, the grid and the error:
//   [training_challenges.json] task '007bbfb7': train 1 input: row 2 column 3 is 10, not a colour
//   0..9
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "geores/puzzles/grid.h"

namespace geores::puzzles {

struct Task {
  std::string name, subset;
  std::vector<Pair> demonstrations;
  std::vector<Pair> tests;   // an output may be missing (0 × 0) where the file has no solutions
  bool tests_first = false;  // the order of the two in the file: it decides the order of rows
};

// Tasks in the order of the file. Every test must have an output: in the solutions file, or, if
// there is none, next to its input.
std::vector<Task> read_subset(const std::filesystem::path& folder, const std::string& subset);

// One task in a file of its own ({"train": […], "test": […]}, named after the file), or all tasks
// of a challenges file. Test outputs may be missing.
std::vector<Task> read_tasks(const std::filesystem::path& path);

// The task of that name; refuses others: [FILE] has no task '007bbfb8', did you mean '007bbfb7'?
const Task& find_task(const std::vector<Task>& tasks, const std::string& name,
                      const std::string& where);

}  // namespace geores::puzzles
