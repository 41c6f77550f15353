// DDL as in the EΔ paper's baseline (arXiv:2605.06729, Sec. 5): it only erases, with one direction
// k for each sequence. F is the sublayer, x̄ the input pooled over positions.
//   k = Perceptron(x̄)/‖·‖ ∈ R^D,  β = 2σ(Perceptron(x̄))
//   g = x − β k (kᵀx),  x' = g + F(LN(g))
// pool = sequence, as in the reference, averages over all T positions, so every position sees the
// future. pool = causal and pool = token do not; they have one k and β for each token.
// Start: β ≈ 1, so g is a projection of x.
// Probes: operator = I − βkkᵀ (B, T', D, D) on the width; beta (B, T', 1). T' is 1 for
// pool = sequence and T otherwise.
#pragma once

#include "geores/modules/layers.h"
#include "geores/ops/pooled/generators.h"
#include "geores/ops/streams/pool.h"
#include "geores/residual/registry.h"

namespace geores {

struct DdlPooledOptions {
  std::string pool = "sequence";
  int64_t hidden_ratio = 4;

  Fields fields();
};

class DdlPooled final : public Residual {
 public:
  DdlPooled(const ResidualConfig& config, const DdlPooledOptions& options);
  Tensor forward(const Tensor& x, const Sublayer& f, Trace& trace) override {
    return advance(x, f, trace).total();
  }
  State advance(const State& state, const Sublayer& f, Trace& trace) override;
  const Traits& traits() const override { return traits_; }

 private:
  SequenceErase erasure(const State& state, Trace& trace);

  Pool pool_;
  Traits traits_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Perceptron> k_, beta_;
};

Connection ddl_pooled_connection();

}  // namespace geores
