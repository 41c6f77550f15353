// The common part of the hyper-connections HC, mHC, mHC-lite and sHC (arXiv:2603.20896 Eqs. 1-9,
// App. G). The state X (B, T, n, C) has n residual streams of width C; F is the sublayer. Per
// token:
//   x' = RMSNorm(vec X) ∈ R^{nC}
//   H_pre = σ(α x'W_pre + b_pre), H_post = 2σ(α x'W_post + b_post)              ∈ R^n
//   X ← H_res X + H_postᵀ F(LN(H_pre X))
// H_pre reads the sublayer's input from the streams, H_post writes its output to them, and H_res
// (n × n, made from x') mixes them. The connections differ in H_res alone: each derives from this
// class and defines H_res.
// Start: all W = 0 and α = 0.01; b_pre and b_post are +1 for stream `index` mod n and −1 for the
// others. The scales α have no gradient until the W have moved.
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
  // read_norm: the LN before F.
  HyperConnection(const ResidualConfig& config, const std::string& name, InitialMap initial_map,
                  bool read_norm = true);

  // H_res (B, T, n, n) from the outputs of the projections that were made with projection(), in
  // their order.
  virtual Tensor mixing(const std::vector<Tensor>& projected) = 0;

  // Registers α x'W + b under `name`, with α = 0.01 and W = 0.
  std::shared_ptr<ScaledProjection> projection(const std::string& name, const Tensor& bias);

  int64_t streams() const { return traits_.streams; }

 private:
  Traits traits_;
  std::shared_ptr<LayerNorm> norm_;             // null: F reads the streams as they are
  std::vector<ScaledProjection*> projections_;  // pre, post, then those of the mixer
};

}  // namespace geores
