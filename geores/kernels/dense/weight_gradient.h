// Gradients of weights on a GPU: dw (out, in) += dyᵀ x, several of them in one launch.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

// dy (rows, out), x (rows, in), dw (out, in). out and in are multiples of 8, dy and x are aligned
// to 16 bytes; dw lies anywhere, and is faster where it is aligned to 16 bytes.
struct WeightGradient {
  const BFloat16 *dy, *x;
  float* dw;
  int64_t out, in;
};

constexpr bool fits_weight_gradient(int64_t out, int64_t in) { return out % 8 == 0 && in % 8 == 0; }

inline constexpr int kMostWeightGradients = 8;

// The products' dw do not overlap, unless their sum is wanted. Additions come in any order: results
// differ in the last places from run to run.
void add_weight_gradients(CudaStream stream, const WeightGradient* products, int count,
                          int64_t rows);

}  // namespace geores::kernels
