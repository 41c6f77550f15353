// Residual streams: a token's values as n streams of d values, and small operators on the stream
// axis. Each kernel reads a token once and keeps it in registers and the first-level cache until it
// has finished with it.
//   x (tokens, n, d)
// Sizes 2, 4, 8 and 16 have compiled forms; any other n up to kMostStreams works.
#pragma once

#include <cstdint>

#include "geores/kernels/norms/norm.h"
#include "geores/kernels/sizes.h"

namespace geores::kernels {

struct StreamShape {
  int64_t tokens, n, d;
};

// g = M x and h = LN(g). One operator m (n, n) serves tokens / operators consecutive tokens: a
// sequence, or a single token.
//   m (operators, n, n); g (tokens, n, d); h (tokens, n·d) or null; statistics (tokens) with h
template <class T>
void mix_norm_forward(const T* m, const T* x, const Norm<T>& norm, T* g, T* h,
                      RowStatistics<T>* statistics, int64_t operators, const StreamShape& shape);

// Takes dg and dh (either may be null), overwrites dx and dm, adds to dweight and dbias (or null).
// g is computed again from x, so it need not be stored.
template <class T>
void mix_norm_backward(const T* m, const T* x, const Norm<T>& norm,
                       const RowStatistics<T>* statistics, const T* dg, const T* dh, T* dx, T* dm,
                       T* dweight, T* dbias, int64_t operators, const StreamShape& shape);

// c = Σ_j read_j x_j and h = LN(c), `tiles` times side by side if the connection needs copies:
//   read (tokens, n); c is not stored; h (tokens, tiles·d), weight (tiles·d); statistics (tokens)
template <class T>
void collect_norm_forward(const T* read, const T* x, const Norm<T>& norm, int64_t tiles, T* h,
                          RowStatistics<T>* statistics, const StreamShape& shape);

// dx = skip + gradient, where skip (tokens, n, d) may be null. Overwrites dread, adds to dweight.
template <class T>
void collect_norm_backward(const T* read, const T* x, const Norm<T>& norm, int64_t tiles,
                           const RowStatistics<T>* statistics, const T* dh, const T* skip, T* dx,
                           T* dread, T* dweight, const StreamShape& shape);

// The same c by itself: c (tokens, d). Both gradients are overwritten.
template <class T>
void collect_forward(const T* read, const T* x, T* c, const StreamShape& shape);
template <class T>
void collect_backward(const T* read, const T* x, const T* dc, T* dread, T* dx,
                      const StreamShape& shape);

// out_i = Σ_j res_ij x_j + write_i b_i. The branch b is one for all streams (d) or one for each
// stream (n, d).
//   res (tokens, n, n), write (tokens, n)
enum class Branch { shared, per_stream };
template <class T>
void mix_write_forward(const T* res, const T* x, const T* write, const T* branch, Branch kind,
                       T* out, const StreamShape& shape);

// All four gradients are overwritten.
template <class T>
void mix_write_backward(const T* res, const T* x, const T* write, const T* branch, Branch kind,
                        const T* dout, T* dres, T* dx, T* dwrite, T* dbranch,
                        const StreamShape& shape);

// 1 − ‖XXᵀ‖²_F / (tr(XXᵀ)² + 1e-8) of each token's n × d matrix X: entropy (tokens).
template <class T>
void stream_entropy_forward(const T* x, T* entropy, const StreamShape& shape);
template <class T>
void stream_entropy_backward(const T* x, const T* dentropy, T* dx, const StreamShape& shape);

// On a GPU: n is one of is_device_stream_count, d is at most kDeviceStreamWidth, h and statistics
// are not null. mix_norm (without bias) and stream_entropy take wider streams too (wide_mix.h).
template <class T, class A>
void mix_norm_forward(CudaStream stream, const T* m, const T* x, const Norm<T>& norm, T* g, A* h,
                      RowStatistics<T>* statistics, int64_t operators, const StreamShape& shape);
template <class T, class A>
void mix_norm_backward(CudaStream stream, const T* m, const T* x, const Norm<T>& norm,
                       const RowStatistics<T>* statistics, const T* dg, const A* dh, T* dx, T* dm,
                       T* dweight, T* dbias, int64_t operators, const StreamShape& shape);
template <class T, class A>
void collect_norm_forward(CudaStream stream, const T* read, const T* x, const Norm<T>& norm,
                          int64_t tiles, A* h, RowStatistics<T>* statistics,
                          const StreamShape& shape);
template <class T, class A>
void collect_norm_backward(CudaStream stream, const T* read, const T* x, const Norm<T>& norm,
                           int64_t tiles, const RowStatistics<T>* statistics, const A* dh,
                           const T* skip, T* dx, T* dread, T* dweight, const StreamShape& shape);
template <class T, class A>
void mix_write_forward(CudaStream stream, const T* res, const T* x, const T* write, const A* branch,
                       Branch kind, T* out, const StreamShape& shape);
template <class T, class A>
void mix_write_backward(CudaStream stream, const T* res, const T* x, const T* write,
                        const A* branch, Branch kind, const T* dout, T* dres, T* dx, T* dwrite,
                        A* dbranch, const StreamShape& shape);
template <class T>
void stream_entropy_forward(CudaStream stream, const T* x, T* entropy, const StreamShape& shape);
template <class T>
void stream_entropy_backward(CudaStream stream, const T* x, const T* dentropy, T* dx,
                             const StreamShape& shape);

}  // namespace geores::kernels
