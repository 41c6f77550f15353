#include "geores/kernels/routed/wide_streams.h"

#include "geores/kernels/streams/wide.cuh"

namespace geores::kernels {
namespace {

using namespace device;

template <int N, int V, class T, class A, class S>
__global__ void __launch_bounds__(kWideBlock)
    wide_read(const T* read, const S* x, ReadNorm<T> norm, A* h, RowStatistics<T>* statistics,
              int64_t tokens, int d) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  // The collected row: each lane reads only its own values, so no barrier is needed.
  T* row = reinterpret_cast<T*>(memory) + threadIdx.x / 32 * in_fours(d);
  for_each_warp_token(tokens, [&](int64_t t) {
    T share[N], sum = 0;
#pragma unroll
    for (int j = 0; j < N; ++j) share[j] = read[t * N + j];
    const S* token = x + t * N * d;
    A* out = h + t * d;
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> in;
      T c[V];
      in.load(token, column, d);
      collect(share, in, c);
      if (norm.none) {
        store_values<V>(out + column, c);
        return;
      }
#pragma unroll
      for (int i = 0; i < V; ++i) sum += c[i];
      store_values<V>(row + column, c);
    });
    if (norm.none) return;
    const T mean = norm.norm.kind == NormKind::layer ? group_sum<32>(sum) / T(d) : T(0);
    T squares = 0;
    for_each_run<V>(d, [&](int column) {
      T c[V];
      load_values<V>(row + column, c);
#pragma unroll
      for (int i = 0; i < V; ++i) squares += (c[i] - mean) * (c[i] - mean);
    });
    const T inverse = T(1) / sqrt(group_sum<32>(squares) / T(d) + norm.norm.eps);
    for_each_run<V>(d, [&](int column) {
      T c[V], weight[V];
      load_values<V>(row + column, c);
      load_weight<V>(norm.norm.weight, column, weight);
#pragma unroll
      for (int i = 0; i < V; ++i) c[i] = (c[i] - mean) * inverse * weight[i];
      store_values<V>(out + column, c);
    });
    if (threadIdx.x % 32 == 0) statistics[t] = {mean, inverse};
  });
}

// The gradient of one token. The norm's sums need the whole row before x is read: h, which is the
// normalized row times the weight, gives them. `dweight` is this warp's row of sums in shared memory.
template <int N, int V, class T, class A, class S>
__device__ inline void wide_read_token_back(const WideReadBackward<T, A, S>& p, int64_t t, int d,
                                            T* dweight) {
  const auto& norm = p.norm.norm;
  const S *x = p.x + t * N * d, *dout = p.dout + t * N * d;
  const A* dh = p.dh ? p.dh + t * d : nullptr;  // null: nothing was read
  S* dx = p.dx + t * N * d;
  T share[N], mean_g = 0, mean_gz = 0;
  RowStatistics<T> s{T(0), T(1)};
#pragma unroll
  for (int j = 0; j < N; ++j) share[j] = dh ? p.read[t * N + j] : T(0);
  if (!p.norm.none) {
    s = p.statistics[t];
    for_each_run<V>(d, [&](int column) {
      T h[V], g[V], weight[V];
      load_values<V>(p.h + t * d + column, h);
      load_values<V>(dh + column, g);
      load_weight<V>(norm.weight, column, weight);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        mean_g += g[i] * weight[i];
        mean_gz += g[i] * h[i];
      }
    });
    mean_g = norm.kind == NormKind::layer ? group_sum<32>(mean_g) / T(d) : T(0);
    mean_gz = group_sum<32>(mean_gz) / T(d);
  }

  T res[N * N], dres[N * N] = {}, dread[N] = {};
#pragma unroll
  for (int i = 0; i < N * N; ++i) res[i] = p.res[t * (N * N) + i];
  for_each_run<V>(d, [&](int column) {
    Piece<N, V, T> in, around;
    T dc[V] = {};
    in.load(x, column, d);
    around.load(dout, column, d);
    if (dh) load_values<V>(dh + column, dc);
    if (!p.norm.none) {
      T z[V], weight[V], sums[V];
      load_weight<V>(norm.weight, column, weight);
      load_values<V>(dweight + column, sums);
      collect(share, in, z);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        z[i] = (z[i] - s.mean) * s.inverse;
        sums[i] += dc[i] * z[i];
        dc[i] = s.inverse * (dc[i] * weight[i] - mean_g - z[i] * mean_gz);
      }
      store_values<V>(dweight + column, sums);
    }
#pragma unroll
    for (int j = 0; j < N; ++j) {
      T out[V];
#pragma unroll
      for (int k = 0; k < V; ++k) {
        out[k] = share[j] * dc[k];
        dread[j] += in.at[j][k] * dc[k];
      }
#pragma unroll
      for (int i = 0; i < N; ++i)
#pragma unroll
        for (int k = 0; k < V; ++k) {
          out[k] += res[i * N + j] * around.at[i][k];
          dres[i * N + j] += around.at[i][k] * in.at[j][k];
        }
      store_values<V>(dx + j * d + column, out);
    }
  });
  store_sums(dres, p.dres + t * (N * N));
  if (dh) store_sums(dread, p.dread + t * N);
}

template <int N, int V, class T, class A, class S>
__global__ void __launch_bounds__(kWideBlock)
    wide_read_back(WideReadBackward<T, A, S> p, int64_t tokens, int d) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  auto* sums = reinterpret_cast<T*>(memory);  // (kWideWarps, d) with a norm, nothing without
  const bool summed = !p.norm.none && p.dweight != nullptr;
  if (!p.norm.none)
    for (int i = threadIdx.x; i < kWideWarps * d; i += kWideBlock) sums[i] = T(0);
  __syncthreads();
  T* mine = sums + threadIdx.x / 32 * d;
  for_each_warp_token(tokens, [&](int64_t t) { wide_read_token_back<N, V>(p, t, d, mine); });
  __syncthreads();
  if (!summed) return;
  for (int i = threadIdx.x; i < d; i += kWideBlock) {
    T sum = 0;
#pragma unroll
    for (int w = 0; w < kWideWarps; ++w) sum += sums[w * d + i];
    atomicAdd(p.dweight + i, sum);
  }
}

template <int N, int V, class T, class A, class S>
__global__ void __launch_bounds__(kWideBlock)
    wide_write(const T* res, const S* x, const T* write, const A* y, S* out, int64_t tokens,
               int d) {
  wait_for_previous();
  for_each_warp_token(tokens, [&](int64_t t) {
    T mixer[N * N], share[N];
#pragma unroll
    for (int i = 0; i < N * N; ++i) mixer[i] = res[t * (N * N) + i];
#pragma unroll
    for (int i = 0; i < N; ++i) share[i] = y ? write[t * N + i] : T(0);
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> in;
      T branch[V] = {};
      in.load(x + t * N * d, column, d);
      if (y) load_values<V>(y + t * d + column, branch);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        T sum[V];
#pragma unroll
        for (int k = 0; k < V; ++k) sum[k] = share[i] * branch[k];
#pragma unroll
        for (int j = 0; j < N; ++j)
#pragma unroll
          for (int k = 0; k < V; ++k) sum[k] += mixer[i * N + j] * in.at[j][k];
        store_values<V>(out + (t * N + i) * d + column, sum);
      }
    });
  });
}

template <int N, int V, class T, class A, class S>
__global__ void __launch_bounds__(kWideBlock)
    wide_write_back(const T* write, const A* y, const S* dout, T* dwrite, A* dy, int64_t tokens,
                    int d) {
  wait_for_previous();
  for_each_warp_token(tokens, [&](int64_t t) {
    T share[N], along[N] = {};
#pragma unroll
    for (int i = 0; i < N; ++i) share[i] = write[t * N + i];
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> g;
      T branch[V], sum[V];
      g.load(dout + t * N * d, column, d);
      load_values<V>(y + t * d + column, branch);
      collect(share, g, sum);
#pragma unroll
      for (int i = 0; i < N; ++i)
#pragma unroll
        for (int k = 0; k < V; ++k) along[i] += g.at[i][k] * branch[k];
      store_values<V>(dy + t * d + column, sum);
    });
    store_sums(along, dwrite + t * N);
  });
}

}  // namespace

template <class T, class A, class S>
void wide_read_forward(CudaStream stream, const T* read, const S* x, const ReadNorm<T>& norm, A* h,
                       RowStatistics<T>* statistics, const StreamShape& s) {
  with_wide_streams<S>(WideStreams(), s, [&](auto n, auto v) {
    launch(stream, {wide_blocks(s.tokens), kWideBlock, norm.none ? 0 : wide_rows<T>(s.d)},
           wide_read<n.value, v.value, T, A, S>, read, x, norm, h, statistics, s.tokens,
           static_cast<int>(s.d));
  });
  check_launch("wide_read_forward");
}

template <class T, class A, class S>
void wide_read_backward(CudaStream stream, const WideReadBackward<T, A, S>& p,
                        const StreamShape& s) {
  // Each block adds a row to the weight's gradient at its end: few blocks, all of them at once.
  const int64_t at_once = 4 * blocks_for_sums();
  with_wide_streams<S>(WideStreams(), s, [&](auto n, auto v) {
    launch(stream,
           {wide_blocks(s.tokens, at_once), kWideBlock, p.norm.none ? 0 : wide_rows<T>(s.d)},
           wide_read_back<n.value, v.value, T, A, S>, p, s.tokens, static_cast<int>(s.d));
  });
  check_launch("wide_read_backward");
}

template <class T, class A, class S>
void wide_write_forward(CudaStream stream, const T* res, const S* x, const T* write, const A* y,
                        S* out, const StreamShape& s) {
  with_wide_streams<S>(WideStreams(), s, [&](auto n, auto v) {
    launch(stream, {wide_blocks(s.tokens), kWideBlock}, wide_write<n.value, v.value, T, A, S>, res,
           x, write, y, out, s.tokens, static_cast<int>(s.d));
  });
  check_launch("wide_write_forward");
}

template <class T, class A, class S>
void wide_write_backward(CudaStream stream, const T* write, const A* y, const S* dout, T* dwrite,
                         A* dy, const StreamShape& s) {
  with_wide_streams<S>(WideStreams(), s, [&](auto n, auto v) {
    launch(stream, {wide_blocks(s.tokens), kWideBlock}, wide_write_back<n.value, v.value, T, A, S>,
           write, y, dout, dwrite, dy, s.tokens, static_cast<int>(s.d));
  });
  check_launch("wide_write_backward");
}

#define GEORES_INSTANTIATE(T, A, S)                                                        \
  template void wide_read_forward(CudaStream, const T*, const S*, const ReadNorm<T>&, A*,  \
                                  RowStatistics<T>*, const StreamShape&);                  \
  template void wide_read_backward(CudaStream, const WideReadBackward<T, A, S>&,           \
                                   const StreamShape&);                                    \
  template void wide_write_forward(CudaStream, const T*, const S*, const T*, const A*, S*, \
                                   const StreamShape&);                                    \
  template void wide_write_backward(CudaStream, const T*, const A*, const S*, T*, A*,      \
                                    const StreamShape&);
GEORES_INSTANTIATE(float, float, float)
GEORES_INSTANTIATE(float, BFloat16, float)
GEORES_INSTANTIATE(float, BFloat16, BFloat16)
GEORES_INSTANTIATE(double, double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
