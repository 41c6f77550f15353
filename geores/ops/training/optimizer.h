// AdamW over flat buffers as kernels; train/optimizer/adamw.h has the formula and the composed
// form.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

struct FlatAdamW {
  Tensor values, gradients, first_moment, second_moment;  // (size) each
  int64_t decayed;  // number of leading values with weight decay
  double clip;      // 0: none
  double decay;     // 1 − lr · weight decay
  double beta1, beta2;
  double step_size;     // lr / (1 − β₁ᵗ)
  double second_scale;  // 1 / √(1 − β₂ᵗ)
  double epsilon;
};

// Updates all four in place; returns the gradients' norm before clipping, 0-dimensional. Changes nothing
// if that is not finite.
Tensor fused_adamw(const FlatAdamW& step);

// The same on a GPU, with the per-step numbers on the device: one value each, bias = 1 − βᵗ.
struct DeviceAdamW {
  Tensor values, gradients, first_moment, second_moment;
  Tensor learning_rate, bias1, bias2;
  int64_t decayed;
  double clip, weight_decay, beta1, beta2, epsilon;
  Tensor product_values;         // receives the new values in its type, bfloat16; or undefined
  bool clear_gradients = false;  // for the next step, instead of leaving them clipped
};
Tensor device_adamw(const DeviceAdamW& step);

}  // namespace geores
