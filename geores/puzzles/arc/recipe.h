// Everything that an ARC data set consists of, without its rows: tasks, the variants drawn for each
// of them, and the position of each training pair on the canvas. Rows are made from it when they are
// needed (make_row), so a set of 3.6 million pairs needs 30 MB instead of 6.5 GB.
//
// Bit-compatible with the sets that the Tiny Recursive Model (arXiv:2510.04871) is trained on:
// NumPy's legacy generator draws, in this order,
//   for each subset: a shuffle of its tasks; for each task and attempt t and π, until `variants`
//     different ones are kept or 5 · variants were drawn (a variant whose puzzle_hash is known is
//     drawn again);
//   for the training split, then the test split, for each group and variant: which pair stays at
//     (0, 0); for every other pair of the training split its row and its column.
// A group is a task with all its variants, the original first; identifiers count variants from 1.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "geores/puzzles/arc/task_file.h"
#include "geores/puzzles/arc/variant.h"

namespace geores::puzzles {

struct ArcOptions {
  int64_t variants = 1000;  // of each task, besides the original
  uint32_t seed = 42;
  int canvas = kLargestGrid;  // tasks with a larger grid are left out
  bool dihedral = true;       // false: variants differ in their colours only
  bool shuffle_tasks = true;  // the order of groups; false: as given
  bool translate = true;      // false: all pairs are at (0, 0)
};

// A task as a group of rows.
struct Group {
  std::string task, subset;
  std::string label = {};         // Reflect-Lite: "reflect" or "control"
  std::vector<Pair> train, test;  // rows of the two splits, in the order of the file
};

struct ArcRecipe {
  int canvas = kLargestGrid;
  std::vector<Group> groups;
  std::vector<Variant> variants;                // of identifier i + 1
  std::vector<int32_t> first_variant;           // of each group, and at the end their number
  std::vector<std::array<uint8_t, 2>> offsets;  // of each training row: row, column
};

// A subset's tasks, and whether their tests are the test split (else they are training pairs).
struct Subset {
  std::vector<Task> tasks;
  bool tests_held_out = false;
};

// `progress(done, total)` is called after each task.
ArcRecipe build_arc(const std::vector<Subset>& subsets, const ArcOptions& options,
                    const std::function<void(int64_t, int64_t)>& progress = {});

// Tokens of one pair of a variant with its offset, canvas² values each; labels have pads (0), not
// −100.
void make_row(const Pair& pair, const Variant& variant, int canvas,
              const std::array<uint8_t, 2>& offset, std::span<uint8_t> inputs,
              std::span<uint8_t> labels);

// SHA-256 of all names in the order of identifiers, each followed by a newline, <blank> first.
std::string identifiers_hash(const ArcRecipe& recipe);

}  // namespace geores::puzzles
