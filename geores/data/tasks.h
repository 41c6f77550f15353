// All tasks by name. `geores list`, the flags and load_dataset follow from the list in tasks.cpp.
//   gyroscope      9000 + 1000 × 256 × 16   one stream of draws, train first
//   stability       900 + 100 × 128 × 64    one stream
//   near_pi        1000 + 500 × 128 × 64    θ = 3.10 in one plane; validation from data_seed + 1000
//   near_pi_multi  1000 + 500 × 128 × 64    θ = 3.14 in all 32 planes; the same
//   reflection      500 + 500 × 2 × 64      y = -x; validation from seed 999
//   copy           9000 + 1000 × 64 tokens  one stream
//   folder         a user's own .npy files
// Sizes are train + validation sequences × states × width; a model learns from one state less. With
// theta, near_pi and near_pi_multi are the θ sweep.
//
// Copy: the sequence is a_1 .. a_m a_1 .. a_m with m = length / 2. x is all of it but the last
// token, y all of it but the first, with -1 (no loss) for the m - 1 targets a_2 .. a_m that nobody
// can know. So position m, where the input is a_m, is the first to be scored, and a_1 is its
// target.
#pragma once

#include <string>
#include <vector>

#include "geores/data/dataset.h"
#include "geores/data/trajectories.h"

namespace geores {

struct Task {
  std::string name;
  std::string summary;       // one line
  int64_t width = 0;         // of a state; 1 for tokens, 0 where the user's files decide
  TaskConfig defaults = {};  // what a zero of the configuration stands for; zero: no such option
  // Draws `count` trajectories of a recipe (a configuration without zeros); null for "folder".
  Trajectories (*draw)(NumpyRandom&, int64_t count, const TaskConfig& recipe) = nullptr;
  // Null: the validation sequences continue the draws of the train sequences.
  int64_t (*validation_seed)(int64_t data_seed) = nullptr;
};

const std::vector<Task>& tasks();

// Fails with the nearest known name.
const Task& find_task(const std::string& name);

// The configuration with every zero replaced by the task's default. Refuses options that the task
// does not have, values out of range and more than 2^31 numbers.
TaskConfig recipe_of(const TaskConfig& config);

}  // namespace geores
