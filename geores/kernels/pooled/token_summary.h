// The summary of each token, on a GPU: running means of the tokens of a sequence and of their
// stream entropies (streams.h), or each token by itself with its own entropy, in one pass.
#pragma once

#include "geores/kernels/streams/streams.h"

namespace geores::kernels {

// The summary of x, or with a branch of x + branch; that sum is stored in `total`. `length`
// consecutive tokens are a sequence; length 0 means no running means, each token by itself.
//   means (tokens, n·d), the input of a product, or null; entropies (tokens) or null
// Streams wider than kDeviceStreamWidth go to wide_summary.h.
template <class T, class A>
void token_summary_forward(CudaStream stream, const T* x, const A* branch, T* total, A* means,
                           T* entropies, int64_t length, const StreamShape& shape);

// dx = skip + the gradients from means and entropies. dmeans (tokens, n·d); dentropies (tokens), which
// may be overwritten, or null; skip (tokens, n·d) or null. dbranch, if not null, gets a copy of dx. If
// there was a branch, x is the sum.
template <class T, class A>
void token_summary_backward(CudaStream stream, const T* x, const T* dmeans, T* dentropies,
                            const T* skip, T* dx, A* dbranch, int64_t length,
                            const StreamShape& shape);

}  // namespace geores::kernels
