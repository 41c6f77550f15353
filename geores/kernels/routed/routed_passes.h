// The backward pass around a sublayer whose residual streams are read, mixed and written by routes
// of each token, on a GPU. Forward:
//   h = LN(Σ_j read_j x_j),   out_i = Σ_j res_ij x_j + write_i b_i,   routes made from norm(x)
// The backward pass goes over the state three times, in this order, with the sublayer's own
// backward pass between the first and the second:
//   write_backward          dout                   -> db, dwrite
//   read_backward           x, dout, dh            -> dc (c = Σ_j read_j x_j), dread, dres
//   routed_state_backward   x, dout, dc, dnormal   -> dx
// n is one of is_device_stream_count, d is at most kDeviceStreamWidth; b as in mix_write_forward.
#pragma once

#include "geores/kernels/streams/streams.h"

namespace geores::kernels {

// Also on a CPU.
template <class T>
void write_backward(const T* write, const T* branch, Branch kind, const T* dout, T* dwrite,
                    T* dbranch, const StreamShape& shape);
template <class T, class A>
void write_backward(CudaStream stream, const T* write, const A* branch, Branch kind, const T* dout,
                    T* dwrite, A* dbranch, const StreamShape& shape);

// read (tokens, n), h (tokens, tiles·d) with its norm's weight and statistics, dc (tokens, d).
// Overwrites dread and dres (tokens, n, n), adds to dweight.
template <class T, class A>
struct ReadBackward {
  const T *read, *x;
  Norm<T> norm;
  const RowStatistics<T>* statistics;
  const A* dh;
  const T* dout;
  T *dc, *dread, *dres, *dweight;
};
template <class T, class A>
void read_backward(CudaStream stream, const ReadBackward<T, A>& p, int64_t tiles,
                   const StreamShape& shape);

// dx_j = Σ_i res_ij dout_i + read_j dc + the gradient through norm(x), where dnormal (tokens, n·d)
// is the gradient of norm(x). Adds to dweight and dbias (or null).
template <class T, class A>
struct RoutedStateBackward {
  const T *res, *read, *x;
  Norm<T> norm;
  const RowStatistics<T>* statistics;
  const A* dnormal;
  const T *dout, *dc;
  T *dx, *dweight, *dbias;
};
template <class T, class A>
void routed_state_backward(CudaStream stream, const RoutedStateBackward<T, A>& p,
                           const StreamShape& shape);

}  // namespace geores::kernels
