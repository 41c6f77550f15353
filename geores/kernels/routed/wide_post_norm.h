// wide_write_forward (wide_streams.h) and the RMSNorm of all values of a token after it, on a GPU:
//   out = v / sqrt(mean v² + eps),   v_i = Σ_j res_ij x_j + write_i y,   sum = out + added
// v waits for its norm in shared memory: the state is read once and written once. Backward dv takes the
// role of the gradient of v in wide_read_backward.
//   x, out, sum, added, dout, dv (tokens, n, d); res (tokens, n, n); write (tokens, n); y (tokens, d)
#pragma once

#include "geores/kernels/routed/wide_streams.h"

namespace geores::kernels {

// A block keeps the tokens of its four warps in shared memory.
template <class T>
constexpr bool fits_wide_post_norm(int64_t n, int64_t d) {
  return is_wide_stream_count(n) && d <= kMostWideValues &&
         4 * ((n * d + 3) / 4 * 4) * static_cast<int64_t>(sizeof(T)) <= 224 * 1024;
}

// `inverse` (tokens) gets 1/sqrt(mean v² + eps). It may be null, as may be out, and sum with `added`.
template <class T, class A, class S = T>
struct WideWriteNormForward {
  const T* res;
  const S* x;
  const T* write;
  const A* y;
  T eps;
  const S* added;
  S *out, *sum;
  T* inverse;
};
template <class T, class A, class S = T>
void wide_write_norm_forward(CudaStream stream, const WideWriteNormForward<T, A, S>& p,
                             const StreamShape& shape);

template <class T, class A, class S = T>
struct WideWriteNormBackward {
  const T* write;
  const A* y;
  const S* out;
  const T* inverse;
  const S* dout;
  S* dv;  // overwritten, as dwrite and dy
  T* dwrite;
  A* dy;
};
template <class T, class A, class S = T>
void wide_write_norm_backward(CudaStream stream, const WideWriteNormBackward<T, A, S>& p,
                              const StreamShape& shape);

}  // namespace geores::kernels
