// mix_norm and stream_entropy (streams.h) for wide residual streams on a GPU: a warp has a token and
// walks along its columns. Arguments as in streams.h; n is one of is_device_stream_count, and a token
// has n·d values, at most kMostWideValues. Norms have no bias.
#pragma once

#include "geores/kernels/norms/norm.h"
#include "geores/kernels/streams/streams.h"

namespace geores::kernels {

inline constexpr int64_t kMostWideValues = 4096;  // a warp keeps one row in shared memory

template <class T, class A>
void wide_mix_norm_forward(CudaStream stream, const T* m, const T* x, const Norm<T>& norm, T* g,
                           A* h, RowStatistics<T>* statistics, int64_t operators,
                           const StreamShape& shape);

template <class T, class A>
struct WideMixBackward {
  const T *m, *x;
  Norm<T> norm;
  const RowStatistics<T>* statistics;
  const T* dg;  // either of dg and dh may be null
  const A* dh;
  T *dx, *dm;  // overwritten
  T* dweight;  // added to, or null
};
template <class T, class A>
void wide_mix_norm_backward(CudaStream stream, const WideMixBackward<T, A>& p, int64_t operators,
                            const StreamShape& shape);

template <class T>
void wide_entropy_forward(CudaStream stream, const T* x, T* entropy, const StreamShape& shape);

// dx = skip + gradient. skip may be null, or dx itself; dbranch, if not null, gets a copy of dx.
template <class T, class A>
void wide_entropy_backward(CudaStream stream, const T* x, const T* dentropy, const T* skip, T* dx,
                           A* dbranch, const StreamShape& shape);

}  // namespace geores::kernels
