// The baselines that every model should beat: the validation MSE of five predictors that learn nothing, or one
// matrix.
//   zero          ŷ_t = 0
//   copy          ŷ_t = x_t
//   running_mean  ŷ_t = (x_0 + ... + x_t) / (t + 1)
//   negate        ŷ_t = -x_t
//   linear        ŷ_t = x_t W, W the least-squares fit on the first 200,000 states of the train set
//                 (no constant; of several best fits the smallest)
// Everything is computed in float64. The limit is the published numbers' own and concerns only
// gyroscope, where a fit on all 2,295,000 states gives 1.109e-2 instead of 1.112e-2. W comes from
// the normal equations, solved by the eigenvectors of XᵀX: they square the condition number of X,
// so directions of X smaller than 1e-7 of the largest count as absent. Cost: O(N T d²).
#pragma once

#include <string>
#include <vector>

#include "geores/data/dataset.h"

namespace geores {

struct Baseline {
  std::string name;
  double mse;
};

// In the order above. Empty for token tasks, which have no MSE.
std::vector<Baseline> trivial_baselines(const Dataset& data);

// The one with the lowest error; there must be one.
const Baseline& best_baseline(const std::vector<Baseline>& baselines);

}  // namespace geores
