// AdamAtan2 (Everett et al., arXiv:2407.05872, in the form of TRM's package) over flat buffers.
// There is no ε: the size of a step does not depend on the scale of the gradients.
//   g ← g · min(1, clip/(‖g‖ + 1e-6))
//   p ← p(1 − lr·decay)                                         all parameters, biases too
//   m ← m + (1−β₁)(g − m),  v ← v + (1−β₂)(g² − v)
//   p ← p − lr/(1−β₁ᵗ) · atan2(m, √v/√(1−β₂ᵗ))
// The bias correction of m is outside atan2. atan2(0, 0) = 0: a parameter that never had a gradient
// only decays. A step is at most (π/2) lr/(1−β₁ᵗ).
#pragma once

#include "geores/train/optimizer/optimizer.h"

namespace geores {

class AdamAtan2 final : public Optimizer {
 public:
  AdamAtan2(FlatParameters& parameters, const OptimizerOptions& options);

  Tensor step(double learning_rate) override;
  Tensor step(const Rates& rates) override;

  // The numbers of step t = 1, 2, … on the device.
  Rates rates(double learning_rate, int64_t t) const;

 private:
  void update(const Rates& rates, const Tensor& norm);
};

}  // namespace geores
