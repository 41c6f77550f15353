// Does a model do better on reflections than on rotations? RGI = pass@1 on reflect tasks − pass@1
// on control tasks, with a bootstrap over tasks.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

namespace geores::puzzles {

// pass@1 of each task.
struct TaskScores {
  std::vector<double> reflect, control;
};

struct Interval {
  double value = 0, low = 0, high = 0;  // 95 %
  nlohmann::json to_json() const;
};

// Tasks are drawn with replacement within each class.
Interval reflection_index(const TaskScores& scores, int64_t draws = 10000, uint64_t seed = 0);

// RGI(a) − RGI(b) on the same tasks in the same order, drawn together.
Interval reflection_difference(const TaskScores& a, const TaskScores& b, int64_t draws = 10000,
                               uint64_t seed = 0);

}  // namespace geores::puzzles
