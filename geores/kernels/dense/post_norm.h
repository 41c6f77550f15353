// RMSNorm after a residual sum, on a GPU: y = v / sqrt(mean v² + eps), v = x + branch. y is the new
// state, and rounded to type A what the next product takes.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

inline constexpr int64_t kPostNormRow = 2048;  // the longest row

// branch (null: none) and `product` (null: not wanted) have the shape of x; `inverse` gets
// 1/sqrt(mean v² + eps) of each row, or is null.
template <class T, class A>
void post_norm_forward(CudaStream stream, const T* x, const A* branch, T eps, T* y, A* product,
                       T* inverse, int64_t rows, int64_t width);

// The gradient of v from those of y and of `product`, either of which may be null. dbranch, if not
// null, gets a copy of dx.
template <class T, class A>
void post_norm_backward(CudaStream stream, const T* y, const T* inverse, const T* dy,
                        const A* dproduct, T* dx, A* dbranch, int64_t rows, int64_t width);

}  // namespace geores::kernels
