// DDL: deep delta learning, erase and write (MGT Eqs. 4 and 16), per token. F is the sublayer.
//   x  = Σ_j r_j X_j                                       the input of the sublayer
//   k  = F(LN(x)) / ‖F(LN(x))‖,  β = 2σ(w·x + b),  v = W_v x + b_v
//   X' = X + β k (v − kᵀX)                                 erases along k, writes v
// The state X of a token is a C × d_v matrix. Its d_v columns are the n streams of the expand
// layout. With streams = 1 the state is a vector and v is a number.
// Start: r = 1/n and w = b = 0, so β = 1, which makes I − βkkᵀ a projector. β = 0 would give the
// identity, β = 2 a reflection.
// Invariant: ‖(I − βkkᵀ)x‖² = ‖x‖² + (β² − 2β)(kᵀx)².
// Probes: operator = I − βkkᵀ (B, T, C, C) on the width; beta (B, T, 1).
#pragma once

#include <utility>

#include "geores/modules/layers.h"
#include "geores/residual/registry.h"

namespace geores {

class Ddl final : public Residual {
 public:
  Ddl(const ResidualConfig& config, const NoOptions& options);
  Tensor forward(const Tensor& x, const Sublayer& f, Trace& trace) override;
  const Traits& traits() const override { return traits_; }
  std::unique_ptr<TokenStep> token_step(int64_t batch) const override;

 private:
  Tensor logit_and_value(const Tensor& seen) const;

  Traits traits_;
  std::shared_ptr<LayerNorm> norm_;
  Tensor read_;  // (n)
  torch::nn::Linear beta_{nullptr}, value_{nullptr};
};

Connection ddl_connection();

}  // namespace geores
