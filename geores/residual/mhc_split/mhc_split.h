// mHC as in the EΔ paper's baseline (arXiv:2605.06729, Sec. 5), split layout, per token:
//   x' = RMSNorm(x) · weight
//   H_pre = σ(α x'W_pre + b_pre), H_post = 2σ(α x'W_post + b_post) ∈ R^n
//   H_res = Sinkhorn(exp(α x'W_res + b_res)): 20 × (rows, columns), eps 1e-8, unrolled gradient
//   X' = H_res X + H_post ⊙ F(LN(tile_n(H_pre X)))
// The sublayer works at full width D on the collected stream of width D/n, tiled n times; its
// output is cut into n streams again. b_res = 2I, b_pre = b_post = 0, α = 0.01, W ~ N(0, 0.02).
// Probes: operator = H_res (B, T, n, n); pre, post (B, T, n).
#pragma once

#include <memory>

#include "geores/modules/layers.h"
#include "geores/residual/registry.h"
#include "geores/residual/routed_connection.h"

namespace geores {

struct MhcSplitOptions {
  int64_t sinkhorn_iterations = 20;

  Fields fields();
};

class MhcSplit final : public RoutedConnection {
 public:
  MhcSplit(const ResidualConfig& config, const MhcSplitOptions& options);

 private:
  RoutedSpec spec() const override;

  int64_t iterations_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<ScaledProjection> pre_, post_, res_;
  Tensor rms_weight_;
};

Connection mhc_split_connection();

}  // namespace geores
