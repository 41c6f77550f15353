#include "geores/residual/mhc/mhc.h"

#include "geores/residual/iterations.h"

namespace geores {

Fields MhcOptions::fields() {
  return Fields()
      .add("sinkhorn_iterations", sinkhorn_iterations, "row and column normalisations",
           {.min = 1, .max = kMostIterations})
      .choice("sinkhorn_gradient", sinkhorn_gradient, {"implicit", "unrolled"},
              "of the fixed point, or of the iterations that were run");
}

Mhc::Mhc(const ResidualConfig& config, const MhcOptions& options)
    : HyperConnection(config, "mhc", InitialMap::near_identity),
      iterations_(options.sinkhorn_iterations),
      gradient_(sinkhorn_gradient_from(options.sinkhorn_gradient)) {
  projection("res", 8 * torch::eye(config.streams) - 8);
}

Tensor Mhc::mixing(const std::vector<Tensor>& projected) {
  return sinkhorn(projected[0], iterations_, gradient_);
}

Connection mhc_connection() {
  return describe_connection<Mhc, MhcOptions>(
      {.name = "mhc",
       .summary = "hyper-connections, doubly stochastic mixer by Sinkhorn-Knopp",
       .paper = "mHC; arXiv:2603.20896 Eqs. 3-4",
       .variants = {nlohmann::json::object(), {{"sinkhorn_gradient", "unrolled"}}},
       .silent_at_start = {"pre.scale", "post.scale", "res.scale"}});
}

}  // namespace geores
