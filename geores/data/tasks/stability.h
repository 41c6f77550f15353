// stability: 900 + 100 sequences of 128 × 64, train first, one sequence of draws for both.
// A unit vector of R^64 (the key) seen `length` times through noise of 1e-3 per entry. Drawn per
// trajectory: 64 Gaussians for the key, then 64 for every state.
#pragma once

#include "geores/data/task.h"

namespace geores {

Task stability_task();

}  // namespace geores
