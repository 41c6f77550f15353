// RMSNorm after a residual sum: y = v / sqrt(mean v² + eps), v = x + branch. y is the new
// state; sum = y + added is the input of the next reader, and rounded to type A that of its product.
#pragma once

#include <cstdint>

#include "geores/kernels/device.h"

namespace geores::kernels {

inline constexpr int64_t kPostNormRow = 2048;  // the longest row on a GPU

// All of the shape of x, and all but x may be null. Without `added` the product is that of y. `inverse`
// gets 1/sqrt(mean v² + eps) of each row.
template <class T, class A, class S = T>
struct PostNormForward {
  const S* x;
  const A* branch;
  const S* added;
  T eps;
  S *y, *sum;
  A* product;
  T* inverse;
};
template <class T, class A>  // on a CPU: A = T
void post_norm_forward(const PostNormForward<T, A>& p, int64_t rows, int64_t width);
template <class T, class A, class S>
void post_norm_forward(CudaStream stream, const PostNormForward<T, A, S>& p, int64_t rows,
                       int64_t width);

// The gradient of v from those of y, of the sum and of the product, each of which may be null. dbranch
// gets a copy of dx, dadded the gradient through the sum and the product; both may be null.
template <class T, class A, class S = T>
struct PostNormBackward {
  const S* y;
  const T* inverse;
  const S *dy, *dsum;
  const A* dproduct;
  S* dx;
  A* dbranch;
  S* dadded;
};
template <class T, class A>  // on a CPU: A = T; dx must not be null
void post_norm_backward(const PostNormBackward<T, A>& p, int64_t rows, int64_t width);
template <class T, class A, class S>
void post_norm_backward(CudaStream stream, const PostNormBackward<T, A, S>& p, int64_t rows,
                        int64_t width);

}  // namespace geores::kernels
