// The products of a perceptron with GELU at their end, in bfloat16 on a GPU.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

// All pointers are aligned to 16 bytes.
struct GeluProductShape {
  int64_t rows, depth, columns;
};

// Whether these kernels can run: depth 128, columns a multiple of 128, a GPU of compute capability
// 9.0, and a build with code for it.
bool has_gelu_products(int64_t depth, int64_t columns);

// hidden = x wᵀ, rounded, and active = GELU(hidden); x (rows, depth), w (columns, depth).
void product_and_gelu(CudaStream stream, const BFloat16* x, const BFloat16* w, BFloat16* hidden,
                      BFloat16* active, const GeluProductShape& shape);

// dhidden = (dy w) ⊙ GELU'(hidden); dy (rows, depth), w (depth, columns). dhidden may be hidden.
void product_and_gelu_slope(CudaStream stream, const BFloat16* dy, const BFloat16* w,
                            const BFloat16* hidden, BFloat16* dhidden,
                            const GeluProductShape& shape);

}  // namespace geores::kernels
