// AdamAtan2 (Everett et al., arXiv:2407.05872, in the form of TRM's package) over flat buffers.
// There is no ε: the size of a step does not depend on the scale of the gradients.
//   g ← g · min(1, clip/(‖g‖ + 1e-6))
//   p ← p(1 − lr·decay)                                         all parameters, biases too
//   m ← m + (1−β₁)(g − m),  v ← v + (1−β₂)(g² − v)
//   p ← p − lr/(1−β₁ᵗ) · atan2(m, √v/√(1−β₂ᵗ))
// The bias correction of m is outside atan2. atan2(0, 0) = 0: a parameter that never had a gradient
// only decays. A step is at most (π/2) lr/(1−β₁ᵗ).
#pragma once

#include "geores/train/optimizer/flat_parameters.h"

namespace geores {

struct AdamAtan2Options {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double weight_decay = 0.1;
  double clip = 0.0;  // 0: no clipping
};

class AdamAtan2 {
 public:
  AdamAtan2(FlatParameters& parameters, const AdamAtan2Options& options);

  // The numbers of one step, on the device, one value each: a recorded step reads them there.
  struct Rates {
    Tensor learning_rate;
    Tensor bias1, bias2;  // 1 − βᵗ, t = 1, 2, …
  };
  Rates rates(double learning_rate, int64_t t) const;

  // Takes one step and clips the gradients in place. Returns their norm before clipping as a
  // 0-dimensional tensor.
  Tensor step(const Rates& rates);

  const AdamAtan2Options& options() const { return options_; }
  Tensor& first_moment() { return first_moment_; }
  Tensor& second_moment() { return second_moment_; }

 private:
  FlatParameters& parameters_;
  AdamAtan2Options options_;
  Tensor first_moment_, second_moment_;
};

}  // namespace geores
