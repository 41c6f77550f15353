// AdamW (Loshchilov & Hutter) with global-norm clipping over flat buffers, as PyTorch computes it:
//   g ← g · min(1, clip/(‖g‖ + 1e-6))
//   p ← p − lr·decay·p                                  (leading part: what decays)
//   m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²
//   p ← p − lr/(1−β₁ᵗ) · m / (√v/√(1−β₂ᵗ) + ε)
#pragma once

#include <optional>

#include "geores/train/optimizer/muon.h"
#include "geores/train/optimizer/optimizer.h"

namespace geores {

// A step leaves parameters that are kept ready (flat_parameters.h) ready for the next one.
class AdamW final : public Optimizer {
 public:
  AdamW(FlatParameters& parameters, const OptimizerOptions& options);

  Tensor step(double learning_rate) override;
  Tensor step(const Rates& rates) override;
  bool leaves_ready() const override { return true; }

 private:
  Tensor fused_step(double learning_rate, double bias1, double bias2);
  Tensor fused_step(const Rates& rates);
  template <class Number>
  Tensor composed_step(const Number& learning_rate, const Number& bias1, const Number& bias2);

  std::optional<Muon> muon_;
};

}  // namespace geores
