// Cross entropy of rows of logits, and its gradient, on a GPU.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

// Whether a block holds a row of logits of `bytes` each in shared memory while it works on it. Such
// rows are read from memory once, and their gradients may overwrite them. A short row
// stays in the caches anyway.
constexpr bool holds_logits(int64_t vocabulary, int64_t bytes) {
  return bytes <= 4 && vocabulary >= 4096 && vocabulary * bytes % 16 == 0 &&
         vocabulary * bytes <= 226 * 1024;
}

// The logits are of type L: T, or BFloat16 with float.
// losses[r] = log Σ e^{x_r} − x_r[target_r], 0 where the target is negative (not scored). `gradients`
// (null: not wanted) gets those of the mean over *count scored rows, in the type of products, row r at
// r · gradient_row.
template <class T, class L, class A>
void cross_entropy_rows(CudaStream stream, const L* logits, const int64_t* targets, const T* count,
                        T* losses, A* gradients, int64_t gradient_row, int64_t rows,
                        int64_t vocabulary);

// sum += *factor · x.
template <class T>
void add_scaled(CudaStream stream, const T* x, const T* factor, T* sum, int64_t size);

}  // namespace geores::kernels
