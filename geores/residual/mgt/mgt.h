// MGT: manifold-gated transformer residual ("Geometric and Dynamic Scaling in Deep Transformers").
// X (B, T, D) is the state, F the sublayer, σ the logistic function; ⊙ multiplies entry by entry.
// `rectify` and `delta` are options, on by default.
//   V  = F(LN(X))
//   rectify:        V ← V ⊙ σ(LN(X W_gate))                    gates V: the "tangent projection"
//   delta:          β = λ tanh(X W_β + b_β) + ε,  X' = X + β ⊙ (V − α X)
//   without delta:  X' = X + V
// W_gate, W_β, b_β and the number α are learned; λ, ε and the start of b_β are the options
// beta_scale, beta_offset and beta_bias. The paper gives no defaults. Ours are λ = 1, ε = 0 and, at
// the start, α = 0 and b_β = 2: X' starts as X + β ⊙ V with β around tanh 2 = 0.964.
// Probes: operator = diag(1 − αβ), D × D (I without delta); beta (B, T, D) with delta.
#pragma once

#include "geores/modules/layers.h"
#include "geores/ops/updates/gated_update.h"
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
  std::unique_ptr<TokenStep> token_step(int64_t batch) const override;

 private:
  GatedUpdateSpec update() const;

  MgtOptions options_;
  Traits traits_;
  std::shared_ptr<LayerNorm> norm_, gate_norm_;
  torch::nn::Linear gate_{nullptr}, beta_{nullptr};
  Tensor alpha_;
};

Connection mgt_connection();

}  // namespace geores
