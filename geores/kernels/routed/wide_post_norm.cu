#include "geores/kernels/routed/wide_post_norm.h"

#include "geores/kernels/streams/held_tokens.cuh"

namespace geores::kernels {
namespace {

using namespace device;

template <int N, int V, class T, class A, class S>
__global__ void __launch_bounds__(kWideBlock)
    wide_write_norm(WideWriteNormForward<T, A, S> p, int64_t tokens, int d) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  // The token before its norm: each lane reads only its own values, so no barrier is needed.
  T* held = reinterpret_cast<T*>(memory) + threadIdx.x / 32 * in_fours(N * d);
  for_each_warp_token(tokens, [&](int64_t t) {
    T mixer[N * N], share[N], squares = 0;
#pragma unroll
    for (int i = 0; i < N * N; ++i) mixer[i] = p.res[t * (N * N) + i];
#pragma unroll
    for (int i = 0; i < N; ++i) share[i] = p.write[t * N + i];
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> in;
      T branch[V];
      in.load(p.x + t * N * d, column, d);
      load_values<V>(p.y + t * d + column, branch);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        T sum[V];
#pragma unroll
        for (int k = 0; k < V; ++k) sum[k] = share[i] * branch[k];
#pragma unroll
        for (int j = 0; j < N; ++j)
#pragma unroll
          for (int k = 0; k < V; ++k) sum[k] += mixer[i * N + j] * in.at[j][k];
#pragma unroll
        for (int k = 0; k < V; ++k) squares += sum[k] * sum[k];
        store_values<V>(held + i * d + column, sum);
      }
    });
    const T inverse = T(1) / sqrt(group_sum<32>(squares) / T(N * d) + p.eps);
    for_each_run<V>(d, [&](int column) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        T sum[V];
        load_values<V>(held + i * d + column, sum);
#pragma unroll
        for (int k = 0; k < V; ++k) sum[k] *= inverse;
        const auto at = (t * N + i) * d + column;
        if (p.out) store_values<V>(p.out + at, sum);
        if (p.sum) {
          T added[V];
          load_values<V>(p.added + at, added);
#pragma unroll
          for (int k = 0; k < V; ++k) sum[k] += added[k];
          store_values<V>(p.sum + at, sum);
        }
      }
    });
    if (p.inverse && threadIdx.x % 32 == 0) p.inverse[t] = inverse;
  });
}

// dv = inverse (dout − out ⟨dout, out⟩/values): two walks along a token.
template <int N, int V, class T, class A, class S>
__global__ void __launch_bounds__(kWideBlock)
    wide_write_norm_back(WideWriteNormBackward<T, A, S> p, int64_t tokens, int d, bool held) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  S* copies = reinterpret_cast<S*>(memory) + threadIdx.x / 32 * (2 * N * d);
  for_each_warp_token(tokens, [&](int64_t t) {
    const S *out = p.out + t * N * d, *dout = p.dout + t * N * d;
    S* dv = p.dv + t * N * d;
    T share[N], along = 0, dwrite[N] = {};
    if (held) {
      copy_token<N, V>(out, copies, d);
      copy_token<N, V>(dout, copies + N * d, d);
      out = copies, dout = copies + N * d;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) share[i] = p.write[t * N + i];
    const T inverse = p.inverse[t];
    if (held) wait_for_copies();
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> z, g;
      z.load(out, column, d);
      g.load(dout, column, d);
#pragma unroll
      for (int i = 0; i < N; ++i)
#pragma unroll
        for (int k = 0; k < V; ++k) along += g.at[i][k] * z.at[i][k];
    });
    along = group_sum<32>(along) / T(N * d);
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> z, g;
      T branch[V], sum[V];
      z.load(out, column, d);
      g.load(dout, column, d);
      load_values<V>(p.y + t * d + column, branch);
#pragma unroll
      for (int i = 0; i < N; ++i) {
#pragma unroll
        for (int k = 0; k < V; ++k) {
          g.at[i][k] = inverse * (g.at[i][k] - z.at[i][k] * along);
          dwrite[i] += g.at[i][k] * branch[k];
        }
        store_values<V>(dv + i * d + column, g.at[i]);
      }
      collect(share, g, sum);
      store_values<V>(p.dy + t * d + column, sum);
    });
    store_sums(dwrite, p.dwrite + t * N);
  });
}

}  // namespace

template <class T, class A, class S>
void wide_write_norm_forward(CudaStream stream, const WideWriteNormForward<T, A, S>& p,
                             const StreamShape& s) {
  with_wide_streams<S>(WideStreams(), s, [&](auto n, auto v) {
    launch(stream, {wide_blocks(s.tokens), kWideBlock, wide_rows<T>(s.n * s.d)},
           wide_write_norm<n.value, v.value, T, A, S>, p, s.tokens, static_cast<int>(s.d));
  });
  check_launch("wide_write_norm_forward");
}

template <class T, class A, class S>
void wide_write_norm_backward(CudaStream stream, const WideWriteNormBackward<T, A, S>& p,
                              const StreamShape& s) {
  const auto held = held_bytes<S>(s.n, s.d, 2);
  with_wide_streams<S>(WideStreams(), s, [&](auto n, auto v) {
    launch(stream, {wide_blocks(s.tokens), kWideBlock, held},
           wide_write_norm_back<n.value, v.value, T, A, S>, p, s.tokens, static_cast<int>(s.d),
           held > 0);
  });
  check_launch("wide_write_norm_backward");
}

#define GEORES_INSTANTIATE(T, A, S)                                                         \
  template void wide_write_norm_forward(CudaStream, const WideWriteNormForward<T, A, S>&,   \
                                        const StreamShape&);                                \
  template void wide_write_norm_backward(CudaStream, const WideWriteNormBackward<T, A, S>&, \
                                         const StreamShape&);
GEORES_INSTANTIATE(float, float, float)
GEORES_INSTANTIATE(float, BFloat16, float)
GEORES_INSTANTIATE(float, BFloat16, BFloat16)
GEORES_INSTANTIATE(double, double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
