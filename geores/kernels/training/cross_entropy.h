// Cross entropy of rows of logits, and its gradient, on a GPU: each row is read from memory once.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

// losses[r] = log Σ e^{x_r} − x_r[target_r], 0 where the target is negative (not scored). `gradients`
// (null: not wanted) gets those of the mean over *count scored rows, in the type of products.
template <class T, class A>
void cross_entropy_rows(CudaStream stream, const T* logits, const int64_t* targets, const T* count,
                        T* losses, A* gradients, int64_t rows, int64_t vocabulary);

}  // namespace geores::kernels
