// SwiGLU's elementwise part: y = silu(gate) · up, silu(g) = g/(1 + e^{-g}). A row of `parts`
// is [gate | up], `hidden` values each.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

// On a CPU: float and double.
template <class A>
void swiglu_forward(const A* parts, A* y, int64_t rows, int64_t hidden);
template <class A>
void swiglu_backward(const A* parts, const A* dy, A* dparts, int64_t rows, int64_t hidden);

template <class A>
void swiglu_forward(CudaStream stream, const A* parts, A* y, int64_t rows, int64_t hidden);

template <class A>
void swiglu_backward(CudaStream stream, const A* parts, const A* dy, A* dparts, int64_t rows,
                     int64_t hidden);

}  // namespace geores::kernels
