// mHC: hyper-connections (hyper_connection.h) with a doubly stochastic mixer (arXiv:2603.20896,
// Eqs. 3-4).
//   H_res = Sinkhorn(α x'W + b), 20 iterations in log space
// Start: b is 0 on the diagonal and −8 elsewhere, so ‖H_res − I‖₂ ~ n e⁻⁸.
// Invariant: the rows and columns of H_res sum to 1, and ‖H_res‖₂ = 1.
#pragma once

#include "geores/ops/mixers/sinkhorn.h"
#include "geores/residual/hyper_connection.h"

namespace geores {

struct MhcOptions {
  int64_t sinkhorn_iterations = 20;
  std::string sinkhorn_gradient = "implicit";

  Fields fields();
};

class Mhc final : public HyperConnection {
 public:
  Mhc(const ResidualConfig& config, const MhcOptions& options);

 private:
  Tensor mixing(const std::vector<Tensor>& projected) override;
  int64_t iterations_;
  SinkhornGradient gradient_;
};

Connection mhc_connection();

}  // namespace geores
