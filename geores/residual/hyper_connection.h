// The common part of the hyper-connections (Zhu et al., arXiv:2409.19606; Xie et al., mHC,
// arXiv:2512.24880; sHC, arXiv:2603.20896). The state X (B, T, n, C) has n residual streams of width
// C; F is the sublayer. Per token:
//   X ← H_res X + H_postᵀ F(LN(H_pre X))
// H_pre (n) reads the sublayer's input from the streams, H_post (n) writes its output to them, and
// H_res (n × n) mixes them. The connections differ in how they make these routes from X.
// Probes: operator = H_res (B, T, n, n); pre, post (B, T, n).
// Decay: the static parts of the routes (biases) have no weight decay, the dynamic parts (weights)
// do, as in Zhu et al.; with decay_static the static part of H_res decays too. Decay would
// otherwise pull a static map with a nonzero initial value to 0, against the data.
#pragma once

#include <optional>
#include <string>

#include "geores/modules/layers.h"
#include "geores/ops/routed/routed.h"
#include "geores/ops/routed/routes.h"
#include "geores/ops/routed/wide.h"
#include "geores/residual/registry.h"

namespace geores {

struct HyperOptions {
  double norm_epsilon = 0;
  bool decay_static = false;

  Fields fields();
};

class HyperConnection : public Residual {
 public:
  Tensor forward(const Tensor& x, const Sublayer& f, Trace& trace) final;
  PostNormed forward_normalized(const Tensor& x, const Sublayer& f, const PostNorm& norm,
                                Trace& trace) final;
  const Traits& traits() const final { return traits_; }
  bool supports_bf16_state() const final;
  std::vector<Tensor> decay_exceptions() const override;
  std::vector<Tensor> mixer_parameters() const final { return static_parts_; }

 protected:
  HyperConnection(const ResidualConfig& config, const std::string& name,
                  const HyperOptions& options, InitialMap initial_map, bool orthogonal = false,
                  bool read_norm = true);

  struct Routed {
    Routes routes;
    Tensor streams;  // the state (B, T, n, C), for the operations after the routes
  };
  virtual Routed route(const Tensor& x) = 0;

  // Routes and reading as one operation; nullopt where no kernel fits.
  virtual std::optional<geores::Routed> routed_at_once(const Tensor&) { return std::nullopt; }

  // The norm of the sublayer's input: LN, or none without read_norm.
  virtual ReadNormSpec read_norm() const;

  // Static parts of H_res: without weight decay, or with it if decay_static.
  std::vector<Tensor> static_parts_;

  int64_t streams() const { return traits_.streams; }
  int64_t width() const { return traits_.sublayer_width; }
  double norm_epsilon() const { return options_.norm_epsilon; }
  bool decays_static() const { return options_.decay_static; }
  const Tensor& norm_weight() const { return norm_->weight(); }

 private:
  // Norm(H_pre X), and the streams for the operations after it.
  NormAndSkip read(const Tensor& pre, const Tensor& streams) const;
  Tensor composed(const Routes& routes, const Tensor& streams, const Sublayer& f) const;

  Traits traits_;
  HyperOptions options_;
  std::shared_ptr<LayerNorm> norm_;  // null: F reads the streams as they are
};

}  // namespace geores
