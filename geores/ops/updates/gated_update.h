// MGT's update of a state (residual/mgt/mgt.h has the formula).
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

struct GatedUpdateSpec {
  Tensor gate_weight{};          // W_gate (D, D); undefined: no gate
  Tensor norm_weight{};          // of LN(X W_gate) (D)
  Tensor beta_weight{};          // W_β (D, D); undefined: X + V
  Tensor beta_bias{};            // b_β (D)
  Tensor alpha{};                // (1)
  double scale = 1, offset = 0;  // λ, ε

  Tensor beta(const Tensor& x) const;  // λ tanh(X W_β + b_β) + ε
};

// X + β ⊙ (V ⊙ σ(LN(X W_gate)) − αX): x, v (B, T, D) -> (B, T, D). Both products are computed as
// one; on a GPU the rest is one pass each way.
Tensor gated_update(const Tensor& x, const Tensor& v, const GatedUpdateSpec& spec);

}  // namespace geores
