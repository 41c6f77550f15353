// ARC-Reflect-Lite: which ARC tasks are reflections, and which are not. A pair of grids fits a
// symmetry t if D_t(input) has the output's shape and some map of colours, not necessarily a
// permutation, turns it into the output. A task's scores are the shares of its demonstrations that
// fit any reflection (t = 4..7), any rotation (1..3), the identity (0).
//
// published  reflect: reflect ≥ 0.3 and not below the others; control: the larger of rotation and
//            identity ≥ 0.2, reflect ≤ 0.2 and not above it; up to 20 of each, at least 5 from
//            evaluation if there are, drawn by NumPy's default_rng(seed)
// strict     reflect: all pairs fit a reflection and neither other class fits all; control: all
//            pairs fit a rotation, or all the identity, and reflections do not
// synthetic  tasks of random objects, made here (see synthetic_tasks)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "geores/puzzles/arc/recipe.h"
#include "geores/puzzles/arc/task_file.h"

namespace geores::puzzles {

bool fits(const Pair& pair, int t);

struct SymmetryScore {
  double reflect = 0, rotation = 0, identity = 0;
};
SymmetryScore symmetry_score(const Task& task);

struct ReflectTask {
  Task task;
  SymmetryScore score;
  std::string label;  // "reflect" or "control"
};

struct ReflectChoice {
  std::vector<ReflectTask> candidates, selected;  // in the order of the subsets; as drawn
};
// Tasks in the order of training, evaluation, concept.
ReflectChoice choose_published(const std::vector<Task>& tasks, uint32_t seed);
ReflectChoice choose_strict(const std::vector<Task>& tasks);

// Notes on scores on the published choice, in lines.
std::vector<std::string> facts_about(const ReflectChoice& choice);

// `count` tasks of each class: random objects on a grid of 3 to 10 rows and columns, the output is
// D_t of the input for one t of the class (4..7 or 1..3) with its colours exchanged by a hidden
// permutation; 3 demonstrations and 1 test. A task that another class explains as well is drawn
// again.
std::vector<ReflectTask> synthetic_tasks(int64_t count, uint64_t seed);

// Groups with labels. hold_out_all: the tests of all tasks are the test split, else only those of
// evaluation tasks, as published.
ArcRecipe build_reflect(const std::vector<ReflectTask>& tasks, bool hold_out_all,
                        const ArcOptions& options);

}  // namespace geores::puzzles
