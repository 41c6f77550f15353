// token_summary.h for wide residual streams: means are made by tiles of columns, which know nothing of
// streams, entropies by a warp for each token (wide_mix.h). A token has at most kMostWideValues
// values if entropies are wanted, and any number if not.
#pragma once

#include "geores/kernels/streams/streams.h"

namespace geores::kernels {

template <class T, class A>
void wide_summary_forward(CudaStream stream, const T* x, const A* branch, T* total, A* means,
                          T* entropies, int64_t length, const StreamShape& shape);

// Overwrites dentropies with the gradients of the tokens' own entropies.
template <class T, class A>
void wide_summary_backward(CudaStream stream, const T* x, const T* dmeans, T* dentropies,
                           const T* skip, T* dx, A* dbranch, int64_t length,
                           const StreamShape& shape);

}  // namespace geores::kernels
