// The delta rule on wide residual streams, on a GPU (residual/ddl/ddl.h has the formula):
//   read = Σ_j weight_j X_j
//   k = y / ‖y‖,  X'_j = X_j + β (v_j − ⟨k, X_j⟩) k,  β = 2 σ(l_0),  v_j = l_{1 + j}
//   X, X' (tokens, n, d), n one of is_wide_stream_count; read, y (tokens, d); l (tokens, 1 + n)
// A warp has a token and walks along its columns twice: sums first, then results. Large tokens wait for
// the second walk in shared memory (streams/held_tokens.cuh), small ones in a cache.
//
// Backward, with the sublayer's own backward pass between the two:
//   delta_streams_backward   X, y, l, dX'             -> dy, dl
//   stream_sum_backward      X, y, dl, dX', dread     -> dX, dweight
// So the gradient of X is written once.
#pragma once

#include "geores/kernels/streams/streams.h"

namespace geores::kernels {

template <class T>
void stream_sum_forward(CudaStream stream, const T* weight, const T* x, T* read,
                        const StreamShape& shape);

template <class T, class A>
void delta_streams_forward(CudaStream stream, const T* x, const A* y, const T* l, T* out,
                           const StreamShape& shape);

// Overwrites dy and dl.
template <class T, class A>
void delta_streams_backward(CudaStream stream, const T* x, const A* y, const T* l, const T* dout,
                            A* dy, T* dl, const StreamShape& shape);

// y and dl are null where the state was not written to by the delta rule; then dout is the gradient of
// X itself, null: 0.
template <class T, class A>
struct StreamSumBackward {
  const T *weight, *x, *dread, *dout;
  const A* y;
  const T* dl;
  T* dx;       // overwritten
  T* dweight;  // (n), added to
};
template <class T, class A>
void stream_sum_backward(CudaStream stream, const StreamSumBackward<T, A>& p,
                         const StreamShape& shape);

}  // namespace geores::kernels
