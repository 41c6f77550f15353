// SwiGLU's elementwise part on a GPU: y = silu(gate) · up, silu(g) = g/(1 + e^{-g}). A row of `parts`
// is [gate | up], `hidden` values each.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

template <class A>
void swiglu_forward(CudaStream stream, const A* parts, A* y, int64_t rows, int64_t hidden);

template <class A>
void swiglu_backward(CudaStream stream, const A* parts, const A* dy, A* dparts, int64_t rows,
                     int64_t hidden);

}  // namespace geores::kernels
