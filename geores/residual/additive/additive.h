// The residual connection of a standard transformer, the baseline for the others. F is the
// sublayer, and the option `norm` sets the position of its norm:
//   pre-norm   x' = x + F(LN(x))        (GPT-2)
//   post-norm  x' = LN(x + F(x))        (the original transformer; its residual path is not linear)
// With `branch_power` p the branch F of the l-th connection, counted from 1, is divided by l^p.
// Published HC learns the same effect by letting x grow (docs/notebook/language_results.md); this option has
// no parameter.
// Probe (a tensor for diagnostics, see Trace in residual.h): operator = 1, the factor that carries
// x past F; for pre-norm only.
#pragma once

#include "geores/modules/layers.h"
#include "geores/residual/registry.h"

namespace geores {

struct AdditiveOptions {
  std::string norm = "pre";
  double branch_power = 0;

  Fields fields();
};

class Additive final : public Residual {
 public:
  Additive(const ResidualConfig& config, const AdditiveOptions& options);
  Tensor forward(const Tensor& x, const Sublayer& f, Trace& trace) override {
    return advance(x, f, trace).total();
  }
  State advance(const State& state, const Sublayer& f, Trace& trace) override;
  const Traits& traits() const override { return traits_; }
  std::unique_ptr<TokenStep> token_step(int64_t batch) const override;

 private:
  Tensor branch(const Sublayer& f, const Tensor& h) const;

  bool pre_norm_;
  double branch_factor_;
  Traits traits_;
  std::shared_ptr<LayerNorm> norm_;
};

Connection additive_connection();

}  // namespace geores
