// What EΔ's operators see of a sequence, on a GPU: the mean of its tokens and the mean of their
// stream entropies (streams.h), in one pass. Sums over `parts` pieces of a sequence are left to
// whoever reads them: generators.h.
#pragma once

#include "geores/kernels/streams/streams.h"

namespace geores::kernels {

inline constexpr int kSummaryParts = 8;

// Of x, or with a branch of x + branch, which is left in `total`.
// sums (sequences, kSummaryParts, n·d); entropies (sequences, kSummaryParts) or null.
template <class T, class A>
void summary_forward(CudaStream stream, const T* x, const A* branch, T* total, T* sums,
                     T* entropies, int64_t sequences, const StreamShape& shape);

// dx = skip + dmean/length + the entropies' part: dmean (sequences, n·d), dentropy (sequences) of
// the means or null, skip (tokens, n·d) or null; dbranch: dx once more, or null. x is the sum where
// there was a branch.
template <class T, class A>
void summary_backward(CudaStream stream, const T* x, const T* dmean, const T* dentropy,
                      const T* skip, T* dx, A* dbranch, int64_t sequences,
                      const StreamShape& shape);

}  // namespace geores::kernels
