// near_pi and near_pi_multi: 1000 + 500 sequences of 128 × 64, validation from data_seed + 1000.
// A unit vector of R^64 turned by θ per step: in the plane (0, 1) by 3.10, or in all of the 32
// planes (0, 1), (2, 3), ... by 3.14. Drawn per trajectory: 64 Gaussians. With other values of
// `theta` they are the θ sweep.
#pragma once

#include "geores/data/task.h"

namespace geores {

Task near_pi_task();
Task near_pi_multi_task();

}  // namespace geores
