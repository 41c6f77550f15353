#include "geores/kernels/streams/wide_mix.h"

#include "geores/kernels/streams/streams.cuh"
#include "geores/kernels/streams/wide.cuh"

namespace geores::kernels {
namespace {

using namespace device;

template <int N, class T>
__device__ inline void load_operator(const T* from, T (&m)[N * N]) {
#pragma unroll
  for (int i = 0; i < N * N; ++i) m[i] = from[i];
}

// Stream i of M x.
template <int N, int V, class T>
__device__ inline void mixed_stream(const T (&m)[N * N], const Piece<N, V, T>& x, int i,
                                    T (&to)[V]) {
#pragma unroll
  for (int k = 0; k < V; ++k) to[k] = T(0);
#pragma unroll
  for (int j = 0; j < N; ++j)
#pragma unroll
    for (int k = 0; k < V; ++k) to[k] += m[i * N + j] * x.at[j][k];
}

template <int N, int V, class T, class A>
__global__ void __launch_bounds__(kWideBlock)
    wide_mix(const T* operators, const T* x, Norm<T> norm, T* g, A* h, RowStatistics<T>* statistics,
             int64_t tokens, int64_t run, int d) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const int width = N * d;
  // The mixed row: each lane reads only its own values, so no barrier is needed.
  T* row = reinterpret_cast<T*>(memory) + threadIdx.x / 32 * in_fours(width);
  for_each_warp_token(tokens, [&](int64_t t) {
    T m[N * N], sum = 0;
    load_operator<N>(operators + t / run * (N * N), m);
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> in;
      in.load(x + t * width, column, d);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        T v[V];
        mixed_stream(m, in, i, v);
#pragma unroll
        for (int k = 0; k < V; ++k) sum += v[k];
        store_values<V>(g + t * width + i * d + column, v);
        store_values<V>(row + i * d + column, v);
      }
    });
    const T mean = group_sum<32>(sum) / T(width);
    T squares = 0;
    const auto for_each_piece = [&](auto&& f) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        for_each_run<V>(d, [&](int column) {
          T v[V];
          load_values<V>(row + i * d + column, v);
          f(i * d + column, v);
        });
    };
    for_each_piece([&](int, T(&v)[V]) {
#pragma unroll
      for (int k = 0; k < V; ++k) squares += (v[k] - mean) * (v[k] - mean);
    });
    const T inverse = T(1) / sqrt(group_sum<32>(squares) / T(width) + norm.eps);
    for_each_piece([&](int column, T(&v)[V]) {
      T weight[V];
      load_weight<V>(norm.weight, column, weight);
#pragma unroll
      for (int k = 0; k < V; ++k) v[k] = (v[k] - mean) * inverse * weight[k];
      store_values<V>(h + t * width + column, v);
    });
    if (threadIdx.x % 32 == 0) statistics[t] = {mean, inverse};
  });
}

// The gradient of one token: writes dx, adds to dm. The norm's sums need the whole row, so the row
// is walked twice; the second time x and dh come from a cache. `dweight` is this warp's row of sums
// in shared memory.
template <int N, int V, class T, class A>
__device__ inline void wide_mix_token_back(const WideMixBackward<T, A>& p, int64_t t, int64_t run,
                                           int d, T* dweight, T (&dm)[N * N]) {
  const int width = N * d;
  const T* x = p.x + t * width;
  T m[N * N], mean_g = 0, mean_gz = 0;
  load_operator<N>(p.m + t / run * (N * N), m);
  RowStatistics<T> s{T(0), T(1)};
  // LN(g) without its weight, and the gradient that comes to it.
  const auto normalized = [&](const Piece<N, V, T>& in, int i, int column, T(&z)[V], T(&g)[V],
                              T(&weight)[V]) {
    mixed_stream(m, in, i, z);
    load_values<V>(p.dh + t * width + i * d + column, g);
    load_weight<V>(p.norm.weight, i * d + column, weight);
#pragma unroll
    for (int k = 0; k < V; ++k) z[k] = (z[k] - s.mean) * s.inverse;
  };
  if (p.dh) {
    s = p.statistics[t];
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> in;
      in.load(x, column, d);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        T z[V], g[V], weight[V], sums[V];
        normalized(in, i, column, z, g, weight);
        load_values<V>(dweight + i * d + column, sums);
#pragma unroll
        for (int k = 0; k < V; ++k) {
          sums[k] += g[k] * z[k];
          g[k] *= weight[k];
          mean_g += g[k];
          mean_gz += g[k] * z[k];
        }
        store_values<V>(dweight + i * d + column, sums);
      }
    });
    mean_g = group_sum<32>(mean_g) / T(width);
    mean_gz = group_sum<32>(mean_gz) / T(width);
  }
  for_each_run<V>(d, [&](int column) {
    Piece<N, V, T> in, total;
    in.load(x, column, d);
    if (p.dg)
      total.load(p.dg + t * width, column, d);
    else
      total = {};
    if (p.dh)
#pragma unroll
      for (int i = 0; i < N; ++i) {
        T z[V], g[V], weight[V];
        normalized(in, i, column, z, g, weight);
#pragma unroll
        for (int k = 0; k < V; ++k)
          total.at[i][k] += s.inverse * (g[k] * weight[k] - mean_g - z[k] * mean_gz);
      }
#pragma unroll
    for (int j = 0; j < N; ++j) {
      T out[V] = {};
#pragma unroll
      for (int i = 0; i < N; ++i)
#pragma unroll
        for (int k = 0; k < V; ++k) {
          out[k] += m[i * N + j] * total.at[i][k];
          dm[i * N + j] += total.at[i][k] * in.at[j][k];
        }
      store_values<V>(p.dx + t * width + j * d + column, out);
    }
  });
}

// One operator for each token, or for each run of tokens, which `parts` blocks share.
template <bool ByToken, int N, int V, class T, class A>
__global__ void __launch_bounds__(kWideBlock)
    wide_mix_back(WideMixBackward<T, A> p, int64_t tokens, int64_t run, int parts, int d) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  auto* sums = reinterpret_cast<T*>(memory);  // (kWideWarps, in_fours(width))
  const int width = N * d, row = static_cast<int>(in_fours(width));
  for (int i = threadIdx.x; i < kWideWarps * row; i += kWideBlock) sums[i] = T(0);
  __syncthreads();
  T* mine = sums + threadIdx.x / 32 * row;
  if constexpr (ByToken) {
    for_each_warp_token(tokens, [&](int64_t t) {
      T dm[N * N] = {};
      wide_mix_token_back<N, V>(p, t, run, d, mine, dm);
      store_sums(dm, p.dm + t * (N * N));
    });
  } else {
    const int64_t o = blockIdx.x / parts;
    T dm[N * N] = {};
    for (int64_t i = blockIdx.x % parts * kWideWarps + threadIdx.x / 32; i < run;
         i += parts * kWideWarps)
      wide_mix_token_back<N, V>(p, o * run + i, run, d, mine, dm);
#pragma unroll
    for (int i = 0; i < N * N; ++i) {
      const T sum = group_sum<32>(dm[i]);
      if (threadIdx.x % 32 == 0) atomicAdd(p.dm + o * (N * N) + i, sum);
    }
  }
  __syncthreads();
  if (!p.dh || !p.dweight) return;
  for (int i = threadIdx.x; i < width; i += kWideBlock) {
    T sum = 0;
#pragma unroll
    for (int w = 0; w < kWideWarps; ++w) sum += sums[w * row + i];
    atomicAdd(p.dweight + i, sum);
  }
}

// XXᵀ of a token, in all lanes.
template <int N, int V, class T>
__device__ inline Gram<N, Columns<V, 32, 1>, T> wide_gram(const T* token, int d) {
  T sums[N * N] = {};
  for_each_run<V>(d, [&](int column) {
    Piece<N, V, T> in;
    in.load(token, column, d);
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int j = 0; j < N; ++j)
#pragma unroll
        for (int k = 0; k < V; ++k) sums[i * N + j] += in.at[i][k] * in.at[j][k];
  });
  return Gram<N, Columns<V, 32, 1>, T>(sums);
}

template <int N, int V, class T>
__global__ void __launch_bounds__(kWideBlock)
    wide_entropy(const T* x, T* entropy, int64_t tokens, int d) {
  wait_for_previous();
  for_each_warp_token(tokens, [&](int64_t t) {
    const auto gram = wide_gram<N, V>(x + t * N * d, d);
    if (threadIdx.x % 32 == 0) entropy[t] = gram.entropy();
  });
}

template <int N, int V, class T, class A>
__global__ void __launch_bounds__(kWideBlock)
    wide_entropy_back(const T* x, const T* dentropy, const T* skip, T* dx, A* dbranch,
                      int64_t tokens, int d) {
  wait_for_previous();
  for_each_warp_token(tokens, [&](int64_t t) {
    const auto at = t * N * d;
    auto gram = wide_gram<N, V>(x + at, d);
    gram.make_slope(dentropy[t]);
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> in, around = {};
      in.load(x + at, column, d);
      if (skip) around.load(skip + at, column, d);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        T slope[V];
        mixed_stream(gram.matrix, in, i, slope);
#pragma unroll
        for (int k = 0; k < V; ++k) slope[k] += around.at[i][k];
        store_values<V>(dx + at + i * d + column, slope);
        if (dbranch) store_values<V>(dbranch + at + i * d + column, slope);
      }
    });
  });
}

}  // namespace

template <class T, class A>
void wide_mix_norm_forward(CudaStream stream, const T* m, const T* x, const Norm<T>& norm, T* g,
                           A* h, RowStatistics<T>* statistics, int64_t operators,
                           const StreamShape& s) {
  with_wide_streams<T>(DeviceStreams(), s, [&](auto n, auto v) {
    launch(stream, {wide_blocks(s.tokens), kWideBlock, wide_rows<T>(s.n * s.d)},
           wide_mix<n.value, v.value, T, A>, m, x, norm, g, h, statistics, s.tokens,
           s.tokens / operators, static_cast<int>(s.d));
  });
  check_launch("wide_mix_norm_forward");
}

template <class T, class A>
void wide_mix_norm_backward(CudaStream stream, const WideMixBackward<T, A>& p, int64_t operators,
                            const StreamShape& s) {
  // Each block adds a row to the weight's gradient at its end: few blocks, all of them at once.
  constexpr int64_t tokens_of_a_warp = 4;
  const int64_t at_once = 4 * blocks_for_sums();
  if (s.tokens == 0) return;
  const auto run = s.tokens / operators;
  with_wide_streams<T>(DeviceStreams(), s, [&](auto n, auto v) {
    const auto shared = wide_rows<T>(s.n * s.d);
    if (run == 1)
      return launch(stream, {wide_blocks(s.tokens, at_once), kWideBlock, shared},
                    wide_mix_back<true, n.value, v.value, T, A>, p, s.tokens, run, 1,
                    static_cast<int>(s.d));
    const auto parts = (wide_blocks(run) + tokens_of_a_warp - 1) / tokens_of_a_warp;
    cudaMemsetAsync(p.dm, 0, static_cast<size_t>(operators * s.n * s.n) * sizeof(T), stream);
    launch(stream, {operators * parts, kWideBlock, shared},
           wide_mix_back<false, n.value, v.value, T, A>, p, s.tokens, run, static_cast<int>(parts),
           static_cast<int>(s.d));
  });
  check_launch("wide_mix_norm_backward");
}

template <class T>
void wide_entropy_forward(CudaStream stream, const T* x, T* entropy, const StreamShape& s) {
  with_wide_streams<T>(DeviceStreams(), s, [&](auto n, auto v) {
    launch(stream, {wide_blocks(s.tokens), kWideBlock}, wide_entropy<n.value, v.value, T>, x,
           entropy, s.tokens, static_cast<int>(s.d));
  });
  check_launch("wide_entropy_forward");
}

template <class T, class A>
void wide_entropy_backward(CudaStream stream, const T* x, const T* dentropy, const T* skip, T* dx,
                           A* dbranch, const StreamShape& s) {
  with_wide_streams<T>(DeviceStreams(), s, [&](auto n, auto v) {
    launch(stream, {wide_blocks(s.tokens), kWideBlock}, wide_entropy_back<n.value, v.value, T, A>,
           x, dentropy, skip, dx, dbranch, s.tokens, static_cast<int>(s.d));
  });
  check_launch("wide_entropy_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                              \
  template void wide_mix_norm_forward(CudaStream, const T*, const T*, const Norm<T>&, T*, A*, \
                                      RowStatistics<T>*, int64_t, const StreamShape&);        \
  template void wide_mix_norm_backward(CudaStream, const WideMixBackward<T, A>&, int64_t,     \
                                       const StreamShape&);                                   \
  template void wide_entropy_backward(CudaStream, const T*, const T*, const T*, T*, A*,       \
                                      const StreamShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

template void wide_entropy_forward(CudaStream, const float*, float*, const StreamShape&);
template void wide_entropy_forward(CudaStream, const double*, double*, const StreamShape&);

}  // namespace geores::kernels
