// The common part of the hyper-connections (Zhu et al., arXiv:2409.19606; Xie et al., mHC,
// arXiv:2512.24880; sHC, arXiv:2603.20896). The state X (B, T, n, C) has n residual streams of width
// C; F is the sublayer. Per token:
//   X ← H_res X + H_postᵀ F(LN(H_pre X))
// H_pre (n) reads the sublayer's input from the streams, H_post (n) writes its output to them, and
// H_res (n × n) mixes them. The connections differ in how they make these routes from X.
// In mHC, mHC-lite and sHC the routes come from the whole state of a token (arXiv:2512.24880 Eqs. 7-8;
// arXiv:2603.20896 Eqs. 1-9, App. G):
//   x' = RMSNorm(vec X) ∈ R^{nC}
//   H_pre = σ(α x'W_pre + b_pre), H_post = 2σ(α x'W_post + b_post)              ∈ R^n
// and the connections differ in H_res alone.
// Start: all W = 0 and α = 0.01; b_pre and b_post are +1 for stream `index` mod n and −1 for the
// others, so H_post starts at 1.46 and 0.54: only H_res starts near a plain residual connection. The
// scales α have no gradient until the W have moved.
// Decay: the static parts of the routes (biases) have no weight decay, the dynamic parts (weights)
// do, as in Zhu et al.; with decay_static the static part of H_res decays too. Decay would
// otherwise pull a static map with a nonzero initial value to 0, against the data.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "geores/modules/layers.h"
#include "geores/residual/registry.h"
#include "geores/residual/routed_connection.h"

namespace geores {

struct HyperOptions {
  double norm_epsilon = 0;
  bool decay_static = false;

  Fields fields();
};

class HyperConnection : public RoutedConnection {
 public:
  std::vector<Tensor> decay_exceptions() const override;
  std::vector<Tensor> mixer_parameters() const final { return static_parts_; }

 protected:
  HyperConnection(const ResidualConfig& config, const std::string& name,
                  const HyperOptions& options, InitialMap initial_map, bool orthogonal = false,
                  bool read_norm = true);

  // Registers the projections of H_pre and H_post, and then, in their order, those of H_res: α x'W + b
  // under `name`, with α = 0.01 and W = 0.
  void add_sigmoid_routes(int64_t index);
  std::shared_ptr<ScaledProjection> projection(const std::string& name, const Tensor& bias);

  // With these projections and the norms above.
  RoutedSpec spec_with(const Routing& routing) const;

  // Static parts of H_res: without weight decay, or with it if decay_static.
  std::vector<Tensor> static_parts_;

  double norm_epsilon() const { return options_.norm_epsilon; }
  bool decays_static() const { return options_.decay_static; }

 private:
  std::shared_ptr<ScaledProjection> add(const std::string& name, const Tensor& bias);

  HyperOptions options_;
  std::shared_ptr<LayerNorm> norm_;             // null: F reads the streams as they are
  std::vector<ScaledProjection*> projections_;  // pre, post, then those of the mixer
};

}  // namespace geores
