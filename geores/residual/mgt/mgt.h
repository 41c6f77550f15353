// MGT: manifold-gated transformer residual ("Geometric and Dynamic Scaling in Deep Transformers").
// F is the sublayer, ⊙ multiplies entry by entry.
//   V  = F(LN(X))
//   rectify:  V ← V ⊙ σ(LN(X W_gate))                    gated tangent projection
//   delta:    β = λ tanh(X W_β + b_β) + ε,  X' = X + β ⊙ (V − α X)
//   without delta: X' = X + V
// `rectify` and `delta` are options. The paper gives no default numbers. Ours are λ = 1, ε = 0, α =
// 0 and b_β = 2 (tanh 2 = 0.964), so that MGT starts close to a pre-norm block. Probes, with delta
// only: operator = diag(1 − αβ) on the width; beta (B, T, D).
#pragma once

#include "geores/modules/layers.h"
#include "geores/residual/registry.h"

namespace geores {

struct MgtOptions {
  bool rectify = true;
  bool delta = true;
  double beta_scale = 1.0;
  double beta_offset = 0.0;
  double beta_bias = 2.0;

  Fields fields();
};

class Mgt final : public Residual {
 public:
  Mgt(const ResidualConfig& config, const MgtOptions& options);
  Tensor forward(const Tensor& x, const Sublayer& f, Trace& trace) override;
  const Traits& traits() const override { return traits_; }

 private:
  MgtOptions options_;
  Traits traits_;
  std::shared_ptr<LayerNorm> norm_, gate_norm_;
  torch::nn::Linear gate_{nullptr}, beta_{nullptr};
  Tensor alpha_;
};

Connection mgt_connection();

}  // namespace geores
