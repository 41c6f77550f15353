// Attention weights of which some are dropped, from the products of queries and keys, on a GPU.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"
#include "geores/kernels/training/dropout.h"

namespace geores::kernels {

struct WeightsShape {
  int64_t rows, length;  // rows: of all sequences and heads, `length` of each one
  double scale;          // of the products
  bool causal;           // row t of a sequence sees columns 0..t; otherwise all
};

// A warp holds a row in registers.
inline constexpr int64_t kMostPositions = 1024;
constexpr bool dropped_softmax_fits(int64_t rows, int64_t length) {
  return length >= 1 && length <= kMostPositions && rows < (int64_t{1} << 31);
}

// scores (rows, length) -> weights = dropped(softmax(scale · scores)), 0 where a row does not see. Sums
// are float32 with BFloat16.
template <class A>
void dropped_softmax_forward(CudaStream stream, const A* scores, A* weights,
                             const DropoutMask& mask, const WeightsShape& shape);

// The softmax is computed again: nothing but the scores has to be kept.
template <class A>
void dropped_softmax_backward(CudaStream stream, const A* scores, const A* dweights, A* dscores,
                              const DropoutMask& mask, const WeightsShape& shape);

}  // namespace geores::kernels
