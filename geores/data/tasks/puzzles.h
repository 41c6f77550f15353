// puzzles: a set of ARC tasks, sudokus or mazes that `geores data` made (geores/puzzles/dataset.h),
// for a recursive model. A run stores the set's fingerprint.
#pragma once

#include "geores/data/task.h"

namespace geores {

Task puzzles_task();

// The origin's key of the fingerprint.
inline constexpr const char* kDataFingerprint = "data_fingerprint";

}  // namespace geores
