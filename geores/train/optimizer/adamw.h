// AdamW (Loshchilov & Hutter) with global-norm clipping over flat buffers, as PyTorch computes it:
//   g ← g · min(1, clip/(‖g‖ + 1e-6))
//   p ← p − lr·decay·p                                  (leading part: what decays)
//   m ← β₁m + (1−β₁)g,  v ← β₂v + (1−β₂)g²
//   p ← p − lr/(1−β₁ᵗ) · m / (√v/√(1−β₂ᵗ) + ε)
#pragma once

#include <optional>

#include "geores/train/optimizer/flat_parameters.h"
#include "geores/train/optimizer/muon.h"

namespace geores {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;  // 0: no clipping
  bool muon = false;  // the matrices of the blocks use Muon (muon.h)
};

class AdamW {
 public:
  AdamW(FlatParameters& parameters, const AdamWOptions& options);

  // One step with the gradients as they are, which it clips in place. Returns their norm before
  // clipping as a 0-dimensional tensor: reading it is the caller's choice of when to wait. Leaves
  // parameters that are kept ready (flat_parameters.h) ready for the next one. On a CPU a step whose norm
  // is not finite changes nothing.
  Tensor step(double learning_rate);

  // The same with numbers on the device, one value each, for work that is recorded once and
  // replayed. The caller that replays it keeps `steps` up to date.
  struct Rates {
    Tensor learning_rate;
    Tensor bias1, bias2;  // 1 − βᵗ
  };
  Tensor step(const Rates& rates);

  const AdamWOptions& options() const { return options_; }

  // The state that a resumed run needs to continue exactly.
  Tensor& first_moment() { return first_moment_; }
  Tensor& second_moment() { return second_moment_; }
  int64_t& steps() { return steps_; }

 private:
  Tensor fused_step(double learning_rate, double bias1, double bias2);
  Tensor fused_step(const Rates& rates);
  template <class Number>
  Tensor composed_step(const Number& learning_rate, const Number& bias1, const Number& bias2);

  FlatParameters& parameters_;
  AdamWOptions options_;
  Tensor first_moment_, second_moment_;
  std::optional<Muon> muon_;
  int64_t steps_ = 0;
};

}  // namespace geores
