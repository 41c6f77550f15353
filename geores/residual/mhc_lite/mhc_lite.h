// mHC-lite: a doubly stochastic mixer as a mixture of all n! permutations (arXiv:2603.20896, Eq.
// 5).
//   H_res = Σ_i softmax(α x'W + b)_i P_i;  b = −8, identity 0.
// Invariant: rows and columns of H_res sum to 1 exactly. Cost: nC·n! parameters, so n ≤ 6.
#pragma once

#include "geores/residual/hyper_connection.h"

namespace geores {

class MhcLite final : public HyperConnection {
 public:
  MhcLite(const ResidualConfig& config, const NoOptions& options);

 private:
  Tensor mixing(const std::vector<Tensor>& projected) override;
  Tensor permutations_;  // (n!, n·n)
};

Connection mhc_lite_connection();

}  // namespace geores
