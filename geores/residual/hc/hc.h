// HC: hyper-connections with an unconstrained mixer (Zhu et al. 2024; arXiv:2603.20896, Eq. 1).
//   H_res = α x'W + b,  b = I at the start, so R = I exactly.
// Nothing keeps a product of such matrices bounded over depth: the reason for the others.
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
