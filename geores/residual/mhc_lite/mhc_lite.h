// mHC-lite: hyper-connections (hyper_connection.h) with a mixture of all n! permutations P_i as the
// doubly stochastic mixer (arXiv:2603.20896, Eq. 4).
//   H_res = Σ_i softmax(α x'W + b)_i P_i
// Start: b is 0 for the identity and −8 for the other permutations.
// Invariant: the rows and columns of H_res sum to 1 exactly. Cost: nC·n! parameters, so n ≤ 6.
#pragma once

#include "geores/residual/hyper_connection.h"

namespace geores {

class MhcLite final : public HyperConnection {
 public:
  MhcLite(const ResidualConfig& config, const HyperOptions& options);

 private:
  RoutedSpec spec() const override { return spec_with(PermutationRouting{permutations_}); }

  Tensor permutations_;  // (n!, n·n)
};

Connection mhc_lite_connection();

}  // namespace geores
