// AdamW with global-norm clipping over flat buffers, in two passes (see train/adamw.h for the
// formula).
#pragma once

#include <cstdint>

namespace geores::kernels {

// Σ x², in double and in pieces of fixed size: the same for any number of threads.
template <class T>
double sum_of_squares(const T* x, int64_t size);

struct AdamWStep {
  double gradient_scale;  // from clipping
  double decay;           // 1 − lr · weight decay, for the first `decayed` values
  int64_t decayed;
  double beta1, beta2;
  double step_size;     // lr / (1 − β₁ᵗ)
  double second_scale;  // 1 / √(1 − β₂ᵗ)
  double epsilon;
};

// One pass: clips the gradients in place, updates both moments and the values.
template <class T>
void adamw_update(T* values, T* gradients, T* first_moment, T* second_moment, int64_t size,
                  const AdamWStep& step);

}  // namespace geores::kernels
