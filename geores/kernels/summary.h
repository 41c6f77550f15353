// What EΔ's operators see of a sequence, on a GPU: the mean of its tokens and the mean of their
// stream entropies (streams.h), in one pass. Sums over `parts` pieces of a sequence are left to
// whoever reads them: generators.h.
#pragma once

#include "geores/kernels/streams.h"

namespace geores::kernels {

inline constexpr int kSummaryParts = 8;

// sums (sequences, kSummaryParts, n·d); entropies (sequences, kSummaryParts) or null.
template <class T>
void summary_forward(Stream stream, const T* x, T* sums, T* entropies, int64_t sequences,
                     const StreamShape& shape);

// dx = skip + dmean/length + the entropies' part: dmean (sequences, n·d), dentropy (sequences) of
// the means or null, skip (tokens, n·d) or null.
template <class T>
void summary_backward(Stream stream, const T* x, const T* dmean, const T* dentropy, const T* skip,
                      T* dx, int64_t sequences, const StreamShape& shape);

}  // namespace geores::kernels
