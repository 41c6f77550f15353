// Gradients of weights on a GPU: dw (out, in) += dyᵀ x, several in one launch.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

// dy (rows, out), x (rows, in), dw (out, in). out and in are multiples of 8, and dy and x are
// aligned to 16 bytes. dw may have any address; it is faster if aligned to 16 bytes.
struct WeightGradient {
  const BFloat16 *dy, *x;
  float* dw;
  int64_t out, in;
};

// Several small products at once fill a GPU; a large one does so alone, and the BLAS has faster
// instructions for it.
inline constexpr int64_t kMostWeights = 512 * 512;
constexpr bool fits_weight_gradient(int64_t out, int64_t in) {
  return out % 8 == 0 && in % 8 == 0 && out * in <= kMostWeights;
}

inline constexpr int kMostWeightGradients = 8;

// The dw of different products must not overlap, unless their sum is wanted. Additions come in any
// order, so results differ in the last digits from run to run.
void add_weight_gradients(CudaStream stream, const WeightGradient* products, int count,
                          int64_t rows);

}  // namespace geores::kernels
