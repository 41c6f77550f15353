// The delta rule on wide residual streams, on a GPU (residual/ddl/ddl.h has the formula):
//   k = y / ‖y‖,  X'_j = X_j + β (v_j − ⟨k, X_j⟩) k
//   X, X' (tokens, n, d), n one of is_wide_stream_count; y (tokens, d); β = beta (tokens); v (tokens, n)
// A warp has a token and walks along its columns twice: sums first, then results. Large tokens wait for
// the second walk in shared memory (streams/held_tokens.cuh), small ones in a cache.
#pragma once

#include "geores/kernels/streams/streams.h"

namespace geores::kernels {

template <class T, class A>
void delta_streams_forward(CudaStream stream, const T* x, const A* y, const T* beta, const T* v,
                           T* out, const StreamShape& shape);

// Overwrites all gradients.
template <class T, class A>
void delta_streams_backward(CudaStream stream, const T* x, const A* y, const T* beta, const T* v,
                            const T* dout, T* dx, A* dy, T* dbeta, T* dv, const StreamShape& shape);

}  // namespace geores::kernels
