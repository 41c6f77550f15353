// AdamW with global-norm clipping over flat buffers, in two passes (see train/optimizer/adamw.h for the
// formula).
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

// Σ x², in double and in pieces of fixed size: the result is the same for any number of threads.
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

// On a GPU, the numbers that change from step to step are in device memory.
inline constexpr int kSquareSums = 1024;
template <class T>
struct DeviceAdamW {
  double clip;  // 0: none
  double weight_decay;
  int64_t decayed;
  double beta1, beta2, epsilon;
  const T *learning_rate, *bias1, *bias2;  // one value each, bias = 1 − βᵗ
  double* partial_squares;                 // kSquareSums values
  T* norm;                                 // of the gradients before clipping
  BFloat16* product_values;                // gets the new values as bfloat16; or null
  // To zero, for the next step; otherwise they stay clipped.
  bool clear_gradients;
};
template <class T>
void adamw_update(CudaStream stream, T* values, T* gradients, T* first_moment, T* second_moment,
                  int64_t size, const DeviceAdamW<T>& step);

}  // namespace geores::kernels
