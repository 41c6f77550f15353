// One operator for each sequence, on a GPU: g = M x, where the operator is itself made from the mean of
// the sequence (pooled/joint_generators.h). Its gradient reaches x on both ways in one pass:
//   sequence_mix_forward    m, x            -> g
//   sequence_mix_sums       dg, x           -> dm, from which dmean follows
//   sequence_mix_backward   m, dg, dmean    -> dx = Mᵀ dg + dmean / length
// A sequence is tokens / sequences consecutive tokens. n is one of is_device_stream_count, d is at most
// kDeviceStreamWidth.
#pragma once

#include "geores/kernels/streams/streams.h"

namespace geores::kernels {

// m (sequences, n, n); x, g (tokens, n, d)
template <class T>
void sequence_mix_forward(CudaStream stream, const T* m, const T* x, T* g, int64_t sequences,
                          const StreamShape& shape);

// Σ_t dg_t x_tᵀ over parts of a sequence: dm (sequences, kMixParts, n, n), overwritten.
inline constexpr int kMixParts = 4;
template <class T>
void sequence_mix_sums(CudaStream stream, const T* dg, const T* x, T* dm, int64_t sequences,
                       const StreamShape& shape);

// dmean (sequences, n·d)
template <class T>
void sequence_mix_backward(CudaStream stream, const T* m, const T* dg, const T* dmean, T* dx,
                           int64_t sequences, const StreamShape& shape);

}  // namespace geores::kernels
