// HC: hyper-connections (hyper_connection.h) with an unconstrained mixer (Zhu et al. 2024;
// arXiv:2603.20896, Eq. 1).
//   H_res = α x'W + b
// Start: b = I and W = 0, so H_res = I exactly.
// Nothing bounds a product of such matrices over depth. The other hyper-connections constrain H_res
// for that reason.
#pragma once

#include "geores/residual/hyper_connection.h"

namespace geores {

class Hc final : public HyperConnection {
 public:
  Hc(const ResidualConfig& config, const NoOptions& options);

 private:
  Tensor mixing(const std::vector<Tensor>& projected) override { return projected[0]; }
};

Connection hc_connection();

}  // namespace geores
