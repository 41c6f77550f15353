// The summary of a sequence that EΔ's operators are made from, on a GPU: the mean of its tokens and
// the mean of their stream entropies (streams.h), in one pass. The kernel leaves sums over `parts`
// pieces of a sequence; the generators add them up (generators.h).
#pragma once

#include "geores/kernels/streams/streams.h"

namespace geores::kernels {

inline constexpr int kSummaryParts = 8;

// The summary of x, or with a branch of x + branch; that sum is stored in `total`.
//   sums (sequences, kSummaryParts, n·d); entropies (sequences, kSummaryParts) or null
template <class T, class A>
void summary_forward(CudaStream stream, const T* x, const A* branch, T* total, T* sums,
                     T* entropies, int64_t sequences, const StreamShape& shape);

// dx = skip + dmean/length + the part from the entropies. dmean (sequences, n·d); dentropy
// (sequences), of the mean entropies, or null; skip (tokens, n·d) or null. dbranch, if not null,
// gets a copy of dx. If there was a branch, x is the sum.
template <class T, class A>
void summary_backward(CudaStream stream, const T* x, const T* dmean, const T* dentropy,
                      const T* skip, T* dx, A* dbranch, int64_t sequences,
                      const StreamShape& shape);

}  // namespace geores::kernels
