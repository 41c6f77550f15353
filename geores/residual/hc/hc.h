// HC: hyper-connections (hyper_connection.h) with an unconstrained mixer (Zhu et al. 2024;
// arXiv:2603.20896, Eq. 1).
//   H_res = α x'W + b
// At the start b = I and W = 0, so H_res = I exactly. Nothing bounds a product of such matrices
// over depth; that is why the other connections constrain H_res.
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
