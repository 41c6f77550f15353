// When a row of a recursive model's batch halts (adaptive computation time): after `most` passes,
// or earlier if its head says so and its random minimum is reached. All functions work on the
// device and read no value back.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// steps (B) int64: passes so far; wants (B) bool: q says halt; least (B) int64, from
// exploration_minimum. Returns (B) bool.
//   halted = (steps ≥ most or wants) and steps ≥ least, where least ≤ most
Tensor halted_after(const Tensor& steps, const Tensor& wants, const Tensor& least, int64_t most);

// For a share `probability` of the rows an integer, uniform in 2..most; 0 for the others. A pure
// function of `draws` (B) int64, which the caller increments after each draw.
Tensor exploration_minimum(const Tensor& draws, double probability, int64_t most);

// The first draws of `rows` rows for a seed: (B) int64, far apart from each other.
Tensor first_draws(int64_t rows, int64_t seed);

// Uniform in [0, 1), float64, from a hash of each int64 (SplitMix64: Steele, Lea and Flood, 2014);
// another salt gives independent numbers.
Tensor uniform_from(const Tensor& numbers, int64_t salt);

}  // namespace geores
