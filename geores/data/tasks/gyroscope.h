// gyroscope: 9000 + 1000 sequences of 256 × 16, train first, one sequence of draws for both.
// A unit vector of R^16 turned by θ per step in the plane of two axes i < j. Drawn per trajectory:
// 16 Gaussians, normalised; θ ~ U(0.1, 2.5); i = randint(0, 15); j = randint(i + 1, 16).
#pragma once

#include "geores/data/task.h"

namespace geores {

Task gyroscope_task();

}  // namespace geores
