#include "geores/residual/hc/hc.h"

namespace geores {

Hc::Hc(const ResidualConfig& config, const NoOptions&)
    : HyperConnection(config, "hc", InitialMap::identity) {
  projection("res", torch::eye(config.streams));
}

Connection hc_connection() {
  return describe_connection<Hc, NoOptions>(
      {.name = "hc",
       .summary = "hyper-connections, unconstrained mixer",
       .paper = "Zhu et al. 2024; arXiv:2603.20896 Eq. 1",
       .silent_at_start = {"pre.scale", "post.scale", "res.scale"}});
}

}  // namespace geores
