// The path of a token with wide residual streams to its sublayer and back, on a GPU:
//   h = Norm(Σ_j read_j x_j),   out_i = Σ_j res_ij x_j + write_i y
// A warp has a token and walks along its columns, so streams may have any width up to
// kMostWideValues. Forward the state is read twice and written once; backward, with the sublayer's
// own backward pass between the two:
//   wide_write_backward   dout          -> dy, dwrite
//   wide_read_backward    x, dout, h, dh -> dx, dread, dres
// Without a sublayer (y and dh null, with read, write and dread) they are out = res x and its gradients.
//   x, dout, dx (tokens, n, d); res (tokens, n, n); read, write (tokens, n); h, y (tokens, d)
#pragma once

#include "geores/kernels/norms/norm.h"
#include "geores/kernels/sizes.h"
#include "geores/kernels/streams/wide_mix.h"

namespace geores::kernels {

// Norm of the sublayer's input; none: the input is the plain sum.
template <class T>
struct ReadNorm {
  bool none = false;
  Norm<T> norm{};
};

// statistics (tokens) are not touched without a norm.
template <class T, class A, class S = T>
void wide_read_forward(CudaStream stream, const T* read, const S* x, const ReadNorm<T>& norm, A* h,
                       RowStatistics<T>* statistics, const StreamShape& shape);

template <class T, class A, class S = T>
struct WideReadBackward {
  const T *res, *read;
  const S* x;
  ReadNorm<T> norm;
  const RowStatistics<T>* statistics;
  const A *h, *dh;  // h: the sublayer's input; null without a norm
  const S* dout;
  S* dx;            // overwritten
  T *dread, *dres;  // overwritten
  T* dweight;       // of the norm; added to
};
template <class T, class A, class S = T>
void wide_read_backward(CudaStream stream, const WideReadBackward<T, A, S>& p,
                        const StreamShape& shape);

template <class T, class A, class S = T>
void wide_write_forward(CudaStream stream, const T* res, const S* x, const T* write, const A* y,
                        S* out, const StreamShape& shape);

// Overwrites dwrite and dy.
template <class T, class A, class S = T>
void wide_write_backward(CudaStream stream, const T* write, const A* y, const S* dout, T* dwrite,
                         A* dy, const StreamShape& shape);

}  // namespace geores::kernels
