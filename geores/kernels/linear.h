// y = x Wᵀ + b, and the two-layer perceptron y = GELU(x W₁ᵀ) W₂ᵀ, in blocks of rows that stay in
// cache.
//   x (rows, in), w (out, in), bias (out) or null, y (rows, out)
// Gradients of the parameters are summed over threads in a fixed order and added to what is there.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

template <class T>
void linear_forward(const T* x, const T* w, const T* bias, T* y, int64_t rows, int64_t in,
                    int64_t out);

// dx (rows, in) is overwritten; dw and dbias are added to. Any of the three may be null.
template <class T>
void linear_backward(const T* x, const T* w, const T* dy, T* dx, T* dw, T* dbias, int64_t rows,
                     int64_t in, int64_t out);

struct PerceptronShape {
  int64_t rows, in, hidden, out;
};

// Keeps only the hidden layer before GELU: (rows, hidden), or null when there will be no backward.
template <class T>
void perceptron_forward(const T* x, const T* w1, const T* w2, T* hidden, T* y,
                        const PerceptronShape& shape);

// dx is overwritten, dw1 and dw2 are added to; any of the three may be null.
template <class T>
void perceptron_backward(const T* x, const T* w1, const T* w2, const T* hidden, const T* dy, T* dx,
                         T* dw1, T* dw2, const PerceptronShape& shape);

// GELU(erf) of `size` values, and dx = dy · GELU'(x).
template <class T>
void gelu_forward(const T* x, T* y, int64_t size);
template <class T>
void gelu_backward(const T* x, const T* dy, T* dx, int64_t size);

// On a GPU, of activations.
template <class A>
void gelu_forward(Stream stream, const A* x, A* y, int64_t size);
template <class A>
void gelu_backward(Stream stream, const A* x, const A* dy, A* dx, int64_t size);

// out = x + branch on a GPU: the state and what a sublayer's last product gave.
template <class T, class A>
void add_branch(Stream stream, const T* x, const A* branch, T* out, int64_t size);

// On a GPU in bfloat16, for in = out of 64 or 128: a perceptron of which only the result reaches
// memory, and products that begin or end with the float state. Addresses are multiples of 16 bytes.
constexpr bool is_device_product_width(int64_t width) { return width == 64 || width == 128; }
constexpr bool perceptron_fits_device(const PerceptronShape& s) {
  return is_device_product_width(s.in) && s.out == s.in && s.hidden > 0 && s.hidden % 64 == 0;
}

// y = skip + GELU(x W₁ᵀ) W₂ᵀ, or without skip (null) where Y is BFloat16.
template <class Y>
void perceptron_forward(Stream stream, const BFloat16* x, const BFloat16* w1, const BFloat16* w2,
                        const float* skip, Y* y, const PerceptronShape& shape);

// dx, and the factors of the weights' gradients: GELU's results, what reaches its arguments and,
// where dy is float, dy rounded (else dy_rounded is null).
template <class Y>
struct PerceptronBackward {
  const BFloat16 *x, *w1, *w2;
  const Y* dy;
  BFloat16 *dx, *active, *dhidden, *dy_rounded;
};
template <class Y>
void perceptron_backward(Stream stream, const PerceptronBackward<Y>& p,
                         const PerceptronShape& shape);

// y = skip + x wᵀ; backward dx = dy w and dy rounded. w (width, width).
void add_linear_forward(Stream stream, const BFloat16* x, const BFloat16* w, const float* skip,
                        float* y, int64_t rows, int64_t width);
void add_linear_backward(Stream stream, const BFloat16* w, const float* dy, BFloat16* dx,
                         BFloat16* dy_rounded, int64_t rows, int64_t width);

}  // namespace geores::kernels
