// reflection: 500 + 500 pairs of R^64, y = −x; the validation pairs come from seed 999. Two states
// each: 64 Gaussians, not normalised, and their negatives.
#pragma once

#include "geores/data/task.h"

namespace geores {

Task reflection_task();

}  // namespace geores
