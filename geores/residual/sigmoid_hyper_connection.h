// Hyper-connections (hyper_connection.h) whose routes come from the whole state of a token, as in
// mHC, mHC-lite and sHC (arXiv:2512.24880 Eqs. 7-8; arXiv:2603.20896 Eqs. 1-9, App. G):
//   x' = RMSNorm(vec X) ∈ R^{nC}
//   H_pre = σ(α x'W_pre + b_pre), H_post = 2σ(α x'W_post + b_post)              ∈ R^n
// The connections differ in H_res alone: each derives from this class and defines H_res from x'.
// Start: all W = 0 and α = 0.01; b_pre and b_post are +1 for stream `index` mod n and −1 for the
// others, so H_post starts at 1.46 and 0.54: only H_res starts near a plain residual connection. The
// scales α have no gradient until the W have moved.
#pragma once

#include <string>

#include "geores/residual/hyper_connection.h"

namespace geores {

class SigmoidHyperConnection : public HyperConnection {
 public:
  std::unique_ptr<TokenStep> token_step(int64_t batch) const final;

 protected:
  SigmoidHyperConnection(const ResidualConfig& config, const std::string& name,
                         const HyperOptions& options, InitialMap initial_map,
                         bool orthogonal = false, bool read_norm = true);

  // H_res (B, T, n, n) from the outputs of the projections that projection() created, in their
  // order; `like` has the state's type and device, and axes (B, T, ·).
  virtual Tensor mixing(const std::vector<Tensor>& projected, const Tensor& like) = 0;

  // The routing as data for the fused operations; nullopt if they do not support it.
  virtual std::optional<Routing> routing() const { return std::nullopt; }

  // The constant added to H_pre.
  virtual double read_offset() const { return 0; }

  // Registers α x'W + b under `name`, with α = 0.01 and W = 0.
  std::shared_ptr<ScaledProjection> projection(const std::string& name, const Tensor& bias);

 private:
  std::optional<RoutedSpec> spec() const;  // nullopt for a form that RoutedSpec does not support
  Routed route(const Tensor& x) final;
  std::optional<geores::Routed> routed_at_once(const Tensor& x) final;
  std::shared_ptr<ScaledProjection> add(const std::string& name, const Tensor& bias);

  std::vector<ScaledProjection*> projections_;  // pre, post, then those of the mixer
};

}  // namespace geores
