// The states of the generated tasks, drawn as the EΔ paper's code draws them (arXiv:2605.06729,
// Section 5): the same seed gives the same data. States are computed in float64 and stored as
// float32. A model sees the states 0 .. length - 2 and predicts the states 1 .. length - 1.
#pragma once

#include <cstdint>
#include <vector>

#include "geores/base/numpy_random.h"

namespace geores {

struct Trajectories {
  int64_t count = 0, length = 0, width = 0;
  std::vector<float> values;  // (count, length, width)
  std::vector<float> theta;   // gyroscope: the angle of each trajectory; else empty
};

// A unit vector of R^16 turned by θ per step in the plane of two axes i < j. Drawn per trajectory:
// 16 Gaussians, normalised; θ ~ U(0.1, 2.5); i = randint(0, 15); j = randint(i + 1, 16).
Trajectories gyroscope_trajectories(NumpyRandom& random, int64_t count, int64_t length);

// A unit vector of R^64 (the key) seen `length` times through noise of 1e-3 per entry. Drawn per
// trajectory: 64 Gaussians for the key, then 64 for every state.
Trajectories stability_trajectories(NumpyRandom& random, int64_t count, int64_t length);

// A unit vector of R^64 turned by θ per step in each of the planes (0, 1), (2, 3), ... of the first
// `planes` of the 32. Drawn per trajectory: 64 Gaussians.
Trajectories rotation_trajectories(NumpyRandom& random, int64_t count, int64_t length,
                                   int64_t planes, double theta);

// Two states each: 64 Gaussians, not normalised, and their negatives.
Trajectories reflection_trajectories(NumpyRandom& random, int64_t count);

// `length` / 2 tokens, each randint(0, vocabulary), and the same tokens once more. Width 1; a token
// is exact as a float up to 2^24.
Trajectories copy_trajectories(NumpyRandom& random, int64_t count, int64_t length,
                               int64_t vocabulary);

}  // namespace geores
