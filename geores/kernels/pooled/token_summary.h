// What the operators of single tokens see, on a GPU: running means of the tokens of a sequence and
// of their stream entropies (streams.h), or each token and its own entropy, in one pass.
#pragma once

#include "geores/kernels/streams/streams.h"

namespace geores::kernels {

// Of x, or with a branch of x + branch, which is left in `total`. `length` tokens in a row are a
// sequence; 0: no means, each token by itself.
// means (tokens, n·d), for a product to take, or null; entropies (tokens) or null.
template <class T, class A>
void token_summary_forward(CudaStream stream, const T* x, const A* branch, T* total, A* means,
                           T* entropies, int64_t length, const StreamShape& shape);

// dx = skip + what comes back from means and entropies: dmeans (tokens, n·d), dentropies (tokens)
// or null, skip (tokens, n·d) or null; dbranch: dx once more, or null. x is the sum where there was
// a branch.
template <class T, class A>
void token_summary_backward(CudaStream stream, const T* x, const T* dmeans, const T* dentropies,
                            const T* skip, T* dx, A* dbranch, int64_t length,
                            const StreamShape& shape);

}  // namespace geores::kernels
