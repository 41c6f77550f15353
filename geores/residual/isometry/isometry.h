// A residual connection whose operator is orthogonal for all parameter values, without a gate and
// without a penalty (ours, docs/notebook/own.md). Split layout: the width D is cut into n streams of width d. F
// is the sublayer; a batch has B sequences of T positions.
//   g  = G x                                        x as (B, T, n, d); G (B, T', n, n)
//   x' = g + F(LN(g))
// G is a product of `factors` factors, whose generators are the outputs of one perceptron, of one
// linear map, or of both together (`generator`, modules/generators.h) on x̄, the pooled input (`pool`).
// The option `operator` names the factors (manifold/isometry.h):
//   reflections   H(k₁)H(k₂): every rotation of a plane, the one by exactly π included
//   unitary       the complex reflection I − (1 − e^{iφ})kk† on n/2 complex streams: a plane turned by φ
//   cayley        (I + M)⁻¹(I − M): all planes at once, none by π
// EΔ's gate (arXiv:2605.06729) interpolates between rotations and reflections. No path inside O(n)
// connects them, because their determinants differ, so EΔ's operator is singular in between. All
// operators here have determinant +1.
// Invariant: GᵀG = I up to the rounding of the entries of G, at all parameter values.
// Start: `anchor` is the length of the initial bias of a direction k, the same for both of a pair; so
// reflections start close to I. With anchor = 0 the first directions are those of the input, as EΔ's k
// is. φ and M start close to 0.
// Probes: operator (B, T', n, n).
#pragma once

#include "geores/modules/generators.h"
#include "geores/modules/layers.h"
#include "geores/ops/mixers/isometry.h"
#include "geores/ops/streams/pool.h"
#include "geores/residual/registry.h"

namespace geores {

struct IsometryOptions {
  std::string operator_name = "unitary";
  int64_t factors = 1;
  std::string pool = "causal";
  std::string generator = "perceptron";
  int64_t hidden_ratio = 4;
  double anchor = 1;

  Fields fields();
};

class IsometryResidual final : public Residual {
 public:
  IsometryResidual(const ResidualConfig& config, const IsometryOptions& options);
  Tensor forward(const Tensor& x, const Sublayer& f, Trace& trace) override {
    return advance(x, f, trace).total();
  }
  State advance(const State& state, const Sublayer& f, Trace& trace) override;
  const Traits& traits() const override { return traits_; }

 private:
  // The initial bias of all generators.
  Tensor anchors(double length, int64_t factors) const;

  IsometryFactor factor_;
  Pool pool_;
  Traits traits_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Generators> generators_;
};

Connection isometry_connection();

}  // namespace geores
