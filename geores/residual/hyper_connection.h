// What hyper-connections (HC, mHC, mHC-lite, sHC; arXiv:2603.20896 Eqs. 1-9, App. G) have in
// common. State X (B, T, n, C), per token:
//   x' = RMSNorm(vec X) ∈ R^{nC}
//   H_pre = σ(α x'W_pre + b_pre), H_post = 2σ(α x'W_post + b_post)              ∈ R^n
//   X ← H_res X + H_postᵀ F(LN(H_pre X))
// They differ in H_res alone (n × n, from x'): each derives from this and says what it is.
// Start: all W = 0, α = 0.01, b_pre and b_post −1 with one entry +1 (stream `index` mod n). The
// scales α have no gradient until the W have moved.
// Probes: operator = H_res (B, T, n, n); pre, post (B, T, n).
#pragma once

#include <string>

#include "geores/modules/layers.h"
#include "geores/residual/registry.h"

namespace geores {

class HyperConnection : public Residual {
 public:
  Tensor forward(const Tensor& x, const Sublayer& f, Trace& trace) final;
  const Traits& traits() const final { return traits_; }

 protected:
  HyperConnection(const ResidualConfig& config, const std::string& name, InitialMap initial_map);

  // H_res (B, T, n, n) from what the projections made below give, in their order.
  virtual Tensor mixing(const std::vector<Tensor>& projected) = 0;

  // α x'W + b with α = 0.01 and W = 0, registered under `name`.
  std::shared_ptr<ScaledProjection> projection(const std::string& name, const Tensor& bias);

  int64_t streams() const { return traits_.streams; }

 private:
  Traits traits_;
  std::shared_ptr<LayerNorm> norm_;
  std::vector<ScaledProjection*> projections_;  // pre, post, then those of the mixer
};

}  // namespace geores
