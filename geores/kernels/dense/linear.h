// y = x Wᵀ + b, and the two-layer perceptron y = GELU(x W₁ᵀ) W₂ᵀ, in blocks of rows that stay in
// cache.
//   x (rows, in), w (out, in), bias (out) or null, y (rows, out)
// P is the type that factors of products are rounded to: T itself, or BFloat16 with float.
// Gradients of the parameters are summed over threads in a fixed order and added to the buffers
// given.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

template <class T, class P = T>
void linear_forward(const T* x, const T* w, const T* bias, T* y, int64_t rows, int64_t in,
                    int64_t out);

// dx (rows, in) is overwritten; dw and dbias are added to. Any of the three may be null.
template <class T, class P = T>
void linear_backward(const T* x, const T* w, const T* dy, T* dx, T* dw, T* dbias, int64_t rows,
                     int64_t in, int64_t out);

struct PerceptronShape {
  int64_t rows, in, hidden, out;
};

// Stores only the hidden layer before GELU: (rows, hidden), or null if no backward pass will
// follow.
template <class T, class P = T>
void perceptron_forward(const T* x, const T* w1, const T* w2, T* hidden, T* y,
                        const PerceptronShape& shape);

// dx is overwritten, dw1 and dw2 are added to; any of the three may be null.
template <class T, class P = T>
void perceptron_backward(const T* x, const T* w1, const T* w2, const T* hidden, const T* dy, T* dx,
                         T* dw1, T* dw2, const PerceptronShape& shape);

// GELU(erf) of `size` values, and dx = dy · GELU'(x).
template <class T>
void gelu_forward(const T* x, T* y, int64_t size);
template <class T>
void gelu_backward(const T* x, const T* dy, T* dx, int64_t size);

// The same on a GPU, for activations.
template <class A>
void gelu_forward(CudaStream stream, const A* x, A* y, int64_t size);
template <class A>
void gelu_backward(CudaStream stream, const A* x, const A* dy, A* dx, int64_t size);

// out = x + branch on a GPU: the state plus the output of a sublayer's last product.
template <class T, class A>
void add_branch(CudaStream stream, const T* x, const A* branch, T* out, int64_t size);

}  // namespace geores::kernels
