#include "geores/kernels/streams/streams.cuh"
#include "geores/kernels/streams/wide_mix.h"

namespace geores::kernels {
namespace {

using namespace device;

template <int N, class L, class T, class A>
__global__ void mix_norm(const T* m, const T* x, Norm<T> norm, T* g, A* h,
                         RowStatistics<T>* statistics, int64_t tokens, int64_t run, int d) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup, width = N * d;
  Token<N, L, T> weight, bias;
  weight.load_parameters(norm.weight, lane, d, T(1));
  bias.load_parameters(norm.bias, lane, d, T(0));
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    Token<N, L, T> in;
    in.load(x + t * width, lane, d);
    auto v = apply<false>(m + t / run * (N * N), in);
    if (there) v.store(g + t * width, lane, d);
    T mean = 0, squares = 0;
    v.for_each([&](int i, int c) { mean += v.at[i][c]; });
    mean = group_sum<L::kGroup>(mean) / T(width);
#pragma unroll
    for (int i = 0; i < N; ++i)
      L::for_each_run(lane, d, [&](int slot, int) {
#pragma unroll
        for (int c = 0; c < L::kVector; ++c) {
          auto& value = v.at[i][slot + c];
          value -= mean;
          squares += value * value;
        }
      });
    const T inverse = T(1) / sqrt(group_sum<L::kGroup>(squares) / T(width) + norm.eps);
    v.for_each(
        [&](int i, int c) { v.at[i][c] = v.at[i][c] * inverse * weight.at[i][c] + bias.at[i][c]; });
    if (!there) return;
    v.store(h + t * width, lane, d);
    if (lane == 0) statistics[t] = {mean, inverse};
  });
}

template <class T, class A>
struct MixNormBackward {
  const T *m, *x;
  Norm<T> norm;
  const RowStatistics<T>* statistics;
  const T* dg;
  const A* dh;
  T *dx, *dm, *dweight, *dbias;
  int64_t tokens, run;
  int d;
};

// One token: writes its dx and adds its part to the sums.
template <int N, class L, class T, class A>
__device__ inline void mix_norm_token(const MixNormBackward<T, A>& p, int64_t t, bool there,
                                      const Token<N, L, T>& weight, T (&dm)[N * N],
                                      Token<N, L, T>& dweight, Token<N, L, T>& dbias) {
  const int lane = threadIdx.x % L::kGroup, width = N * p.d;
  const T* m = p.m + t / p.run * (N * N);
  Token<N, L, T> x, dtotal, around = {};
  x.load(p.x + t * width, lane, p.d);
  // Loaded early, so that all loads are in flight at once.
  if (p.dg) around.load(p.dg + t * width, lane, p.d);
  if (p.dh) {
    dtotal.load(p.dh + t * width, lane, p.d);
    const auto s = p.statistics[t];
    auto z = apply<false>(m, x);
    T sum_g = 0, sum_gz = 0;
    z.for_each([&](int i, int c) {
      auto &value = z.at[i][c], &g = dtotal.at[i][c];  // g is 0 beyond the row
      value = (value - s.mean) * s.inverse;
      if (there) {
        dweight.at[i][c] += g * value;
        dbias.at[i][c] += g;
      }
      g *= weight.at[i][c];
      sum_g += g;
      sum_gz += g * value;
    });
    sum_g = group_sum<L::kGroup>(sum_g) / T(width);
    sum_gz = group_sum<L::kGroup>(sum_gz) / T(width);
    z.for_each([&](int i, int c) {
      dtotal.at[i][c] =
          around.at[i][c] + s.inverse * (dtotal.at[i][c] - sum_g - z.at[i][c] * sum_gz);
    });
  } else {
    dtotal = around;
  }
  if (!there) return;
  apply<true>(m, dtotal).store(p.dx + t * width, lane, p.d);
  add_inner_products(dtotal, x, dm);  // x is 0 beyond the row
}

template <int N, class L, class T>
__device__ inline void add_parameter_sums(const Token<N, L, T>& held, T* shared, T* total, int d) {
  add_columns<L>(held.at, N, shared, total, d);
}

// One operator for each token.
template <int N, class L, class T, class A>
__global__ void mix_norm_backward_by_token(MixNormBackward<T, A> p) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const int lane = threadIdx.x % L::kGroup;
  Token<N, L, T> weight, dweight = {}, dbias = {};
  weight.load_parameters(p.norm.weight, lane, p.d, T(1));
  for_each_token<L::kGroup>(p.tokens, [&](int64_t t, bool there) {
    T dm[N * N] = {};
    mix_norm_token(p, t, there, weight, dm, dweight, dbias);
    const SharedSums<L::kGroup, N * N, T> sums(dm);
    if (there) sums.store(p.dm + t * (N * N), lane);
  });
  if (p.dweight) add_parameter_sums(dweight, reinterpret_cast<T*>(memory), p.dweight, p.d);
  if (p.dbias) add_parameter_sums(dbias, reinterpret_cast<T*>(memory), p.dbias, p.d);
}

// One operator for each run of tokens; `parts` blocks share a run.
template <int N, class L, class T, class A>
__global__ void mix_norm_backward_by_run(MixNormBackward<T, A> p, int parts) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  __shared__ T dm_sum[N * N];
  const int lane = threadIdx.x % L::kGroup;
  if (threadIdx.x < N * N) dm_sum[threadIdx.x] = T(0);
  __syncthreads();
  const int64_t o = blockIdx.x / parts;
  const int groups = blockDim.x / L::kGroup, stride = groups * parts;
  const int first = blockIdx.x % parts * groups + threadIdx.x / L::kGroup;
  Token<N, L, T> weight, dweight = {}, dbias = {};
  weight.load_parameters(p.norm.weight, lane, p.d, T(1));
  T dm[N * N] = {};
  for (int64_t begin = 0; begin < p.run; begin += stride) {
    const auto at = begin + first;
    mix_norm_token(p, o * p.run + min(at, p.run - 1), at < p.run, weight, dm, dweight, dbias);
  }
#pragma unroll
  for (int i = 0; i < N * N; ++i) {
    dm[i] = group_sum<32>(dm[i]);
    if (threadIdx.x % 32 == 0) atomicAdd(dm_sum + i, dm[i]);
  }
  __syncthreads();
  if (threadIdx.x < N * N) atomicAdd(p.dm + o * (N * N) + threadIdx.x, dm_sum[threadIdx.x]);
  if (p.dweight) add_parameter_sums(dweight, reinterpret_cast<T*>(memory), p.dweight, p.d);
  if (p.dbias) add_parameter_sums(dbias, reinterpret_cast<T*>(memory), p.dbias, p.d);
}

template <int N, int Tiles, class L, class T, class A>
__global__ void collect_norm(const T* read, const T* x, Norm<T> norm, A* h,
                             RowStatistics<T>* statistics, int64_t tokens, int d) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup;
  Token<Tiles, L, T> weight;
  weight.load_parameters(norm.weight, lane, d, T(1));
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    Token<N, L, T> in;
    T c[L::kHeld], mean = 0, squares = 0;
    in.load(x + t * N * d, lane, d);
    collect(read + t * N, in, c);
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) mean += c[i];
    mean = group_sum<L::kGroup>(mean) / T(d);
    L::for_each_run(lane, d, [&](int slot, int) {
#pragma unroll
      for (int i = 0; i < L::kVector; ++i) {
        c[slot + i] -= mean;
        squares += c[slot + i] * c[slot + i];
      }
    });
    const T inverse = T(1) / sqrt(group_sum<L::kGroup>(squares) / T(d) + norm.eps);
    if (!there) return;
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      T out[L::kHeld];
#pragma unroll
      for (int i = 0; i < L::kHeld; ++i) out[i] = c[i] * inverse * weight.at[tile][i];
      L::store(out, h + (t * Tiles + tile) * d, lane, d);
    }
    if (lane == 0) statistics[t] = {mean, inverse};
  });
}

template <int N, int Tiles, class L, class T, class A>
__global__ void collect_norm_back(const T* read, const T* x, Norm<T> norm,
                                  const RowStatistics<T>* statistics, const A* dh, const T* skip,
                                  T* dx, T* dread, T* dweight, int64_t tokens, int d) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const int lane = threadIdx.x % L::kGroup;
  Token<Tiles, L, T> weight, dweight_here = {};
  weight.load_parameters(norm.weight, lane, d, T(1));
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    Token<N, L, T> in, around = {};
    Token<Tiles, L, T> g;
    T c[L::kHeld], dc[L::kHeld];
    in.load(x + t * N * d, lane, d);
    g.load(dh + t * Tiles * d, lane, d);
    if (skip) around.load(skip + t * N * d, lane, d);
    collect(read + t * N, in, c);
    collected_norm_back<Tiles, L>(c, statistics[t], g, weight, there, d, dweight_here, dc);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      T along = 0;  // x is 0 beyond the row
#pragma unroll
      for (int i = 0; i < L::kHeld; ++i) along += in.at[j][i] * dc[i];
      along = group_sum<L::kGroup>(along);
      if (!there) continue;
      if (lane == 0) dread[t * N + j] = along;
      const T share = read[t * N + j];
#pragma unroll
      for (int i = 0; i < L::kHeld; ++i) around.at[j][i] += share * dc[i];
      L::store(around.at[j], dx + (t * N + j) * d, lane, d);
    }
  });
  if (dweight) add_parameter_sums(dweight_here, reinterpret_cast<T*>(memory), dweight, d);
}

template <int N, bool Shared, class L, class T, class A>
__global__ void mix_write(const T* res, const T* x, const T* write, const A* branch, T* out,
                          int64_t tokens, int d) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup;
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    if (!there) return;
    Token<N, L, T> in;
    Token<Shared ? 1 : N, L, T> y;
    in.load(x + t * N * d, lane, d);
    y.load(branch + t * (Shared ? 1 : N) * d, lane, d);
    auto v = apply<false>(res + t * (N * N), in);
    v.for_each([&](int i, int c) { v.at[i][c] += write[t * N + i] * y.at[Shared ? 0 : i][c]; });
    v.store(out + t * N * d, lane, d);
  });
}

template <int N, bool Shared, class L, class T, class A>
__global__ void mix_write_back(const T* res, const T* x, const T* write, const A* branch,
                               const T* dout, T* dres, T* dx, T* dwrite, A* dbranch, int64_t tokens,
                               int d) {
  wait_for_previous();
  constexpr int branches = Shared ? 1 : N;
  const int lane = threadIdx.x % L::kGroup;
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    Token<N, L, T> in, g;
    Token<branches, L, T> y, dy = {};
    in.load(x + t * N * d, lane, d);
    g.load(dout + t * N * d, lane, d);
    y.load(branch + t * branches * d, lane, d);
    T dm[N * N] = {};
    add_inner_products(g, in, dm);
#pragma unroll
    for (int i = 0; i < N * N; ++i) {
      dm[i] = group_sum<L::kGroup>(dm[i]);
      if (there && lane == i % L::kGroup) dres[t * (N * N) + i] = dm[i];
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      constexpr int step = Shared ? 0 : 1;
      T along = 0;
      const T share = write[t * N + i];
#pragma unroll
      for (int c = 0; c < L::kHeld; ++c) {
        along += g.at[i][c] * y.at[i * step][c];
        dy.at[i * step][c] += share * g.at[i][c];
      }
      along = group_sum<L::kGroup>(along);
      if (there && lane == 0) dwrite[t * N + i] = along;
    }
    if (!there) return;
    apply<true>(res + t * (N * N), g).store(dx + t * N * d, lane, d);
    dy.store(dbranch + t * branches * d, lane, d);
  });
}

template <int N, class L, class T>
__global__ void entropy_of_tokens(const T* x, T* entropy, int64_t tokens, int d) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup;
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    Token<N, L, T> in;
    in.load(x + t * N * d, lane, d);
    const Gram<N, L, T> gram(in);
    if (there && lane == 0) entropy[t] = gram.entropy();
  });
}

template <int N, class L, class T>
__global__ void entropy_of_tokens_back(const T* x, const T* dentropy, T* dx, int64_t tokens,
                                       int d) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup;
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    Token<N, L, T> in;
    in.load(x + t * N * d, lane, d);
    Gram<N, L, T> gram(in);
    gram.make_slope(dentropy[t]);
    if (there) apply<false>(gram.matrix, in).store(dx + t * N * d, lane, d);
  });
}

}  // namespace

template <class T, class A>
void mix_norm_forward(CudaStream stream, const T* m, const T* x, const Norm<T>& norm, T* g, A* h,
                      RowStatistics<T>* statistics, int64_t operators, const StreamShape& s) {
  if (s.d > kDeviceStreamWidth)
    return wide_mix_norm_forward(stream, m, x, norm, g, h, statistics, operators, s);
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    launch(stream, {blocks_for(s.tokens, L::kGroup), kThreads}, mix_norm<n.value, L, T, A>, m, x,
           norm, g, h, statistics, s.tokens, s.tokens / operators, static_cast<int>(s.d));
  });
  check_launch("mix_norm_forward");
}

template <class T, class A>
void mix_norm_backward(CudaStream stream, const T* m, const T* x, const Norm<T>& norm,
                       const RowStatistics<T>* statistics, const T* dg, const A* dh, T* dx, T* dm,
                       T* dweight, T* dbias, int64_t operators, const StreamShape& s) {
  if (s.d > kDeviceStreamWidth)
    return wide_mix_norm_backward<T, A>(stream, {m, x, norm, statistics, dg, dh, dx, dm, dweight},
                                        operators, s);
  const auto run = s.tokens / operators;
  const MixNormBackward<T, A> p{
      m, x, norm, statistics, dg, dh, dx, dm, dweight, dbias, s.tokens, run, static_cast<int>(s.d)};
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    const auto shared = static_cast<size_t>(s.n * s.d) * sizeof(T);
    if (run == 1) {
      const auto blocks = blocks_for(s.tokens, L::kGroup, 2 * blocks_for_sums());
      launch(stream, {blocks, kThreads, shared}, mix_norm_backward_by_token<n.value, L, T, A>, p);
      return;
    }
    // Two tokens for each group of a block.
    constexpr int64_t tokens_per_block = 2 * kThreads / L::kGroup;
    const int parts = static_cast<int>((run + tokens_per_block - 1) / tokens_per_block);
    cudaMemsetAsync(dm, 0, static_cast<size_t>(operators * s.n * s.n) * sizeof(T), stream);
    launch(stream, {static_cast<unsigned>(operators * parts), kThreads, shared},
           mix_norm_backward_by_run<n.value, L, T, A>, p, parts);
  });
  check_launch("mix_norm_backward");
}

template <class T, class A>
void collect_norm_forward(CudaStream stream, const T* read, const T* x, const Norm<T>& norm,
                          int64_t tiles, A* h, RowStatistics<T>* statistics, const StreamShape& s) {
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    const auto start = [&](auto count) {
      launch(stream, {blocks_for(s.tokens, L::kGroup), kThreads},
             collect_norm<n.value, count.value, L, T, A>, read, x, norm, h, statistics, s.tokens,
             static_cast<int>(s.d));
    };
    if (tiles == 1)
      start(std::integral_constant<int, 1>());
    else
      start(n);
  });
  check_launch("collect_norm_forward");
}

template <class T, class A>
void collect_norm_backward(CudaStream stream, const T* read, const T* x, const Norm<T>& norm,
                           int64_t tiles, const RowStatistics<T>* statistics, const A* dh,
                           const T* skip, T* dx, T* dread, T* dweight, const StreamShape& s) {
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    const auto start = [&](auto count) {
      launch(stream,
             {blocks_for(s.tokens, L::kGroup, 4 * blocks_for_sums()), kThreads,
              static_cast<size_t>(tiles * s.d) * sizeof(T)},
             collect_norm_back<n.value, count.value, L, T, A>, read, x, norm, statistics, dh, skip,
             dx, dread, dweight, s.tokens, static_cast<int>(s.d));
    };
    if (tiles == 1)
      start(std::integral_constant<int, 1>());
    else
      start(n);
  });
  check_launch("collect_norm_backward");
}

template <class T, class A>
void mix_write_forward(CudaStream stream, const T* res, const T* x, const T* write, const A* branch,
                       Branch kind, T* out, const StreamShape& s) {
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    const auto start = [&](auto shared) {
      launch(stream, {blocks_for(s.tokens, L::kGroup), kThreads},
             mix_write<n.value, shared.value, L, T, A>, res, x, write, branch, out, s.tokens,
             static_cast<int>(s.d));
    };
    if (kind == Branch::shared)
      start(std::true_type());
    else
      start(std::false_type());
  });
  check_launch("mix_write_forward");
}

template <class T, class A>
void mix_write_backward(CudaStream stream, const T* res, const T* x, const T* write,
                        const A* branch, Branch kind, const T* dout, T* dres, T* dx, T* dwrite,
                        A* dbranch, const StreamShape& s) {
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    const auto start = [&](auto shared) {
      launch(stream, {blocks_for(s.tokens, L::kGroup), kThreads},
             mix_write_back<n.value, shared.value, L, T, A>, res, x, write, branch, dout, dres, dx,
             dwrite, dbranch, s.tokens, static_cast<int>(s.d));
    };
    if (kind == Branch::shared)
      start(std::true_type());
    else
      start(std::false_type());
  });
  check_launch("mix_write_backward");
}

template <class T>
void stream_entropy_forward(CudaStream stream, const T* x, T* entropy, const StreamShape& s) {
  if (s.d > kDeviceStreamWidth) return wide_entropy_forward(stream, x, entropy, s);
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    launch(stream, {blocks_for(s.tokens, L::kGroup), kThreads}, entropy_of_tokens<n.value, L, T>, x,
           entropy, s.tokens, static_cast<int>(s.d));
  });
  check_launch("stream_entropy_forward");
}

template <class T>
void stream_entropy_backward(CudaStream stream, const T* x, const T* dentropy, T* dx,
                             const StreamShape& s) {
  if (s.d > kDeviceStreamWidth)
    return wide_entropy_backward<T, T>(stream, x, dentropy, nullptr, dx, nullptr, s);
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    launch(stream, {blocks_for(s.tokens, L::kGroup), kThreads},
           entropy_of_tokens_back<n.value, L, T>, x, dentropy, dx, s.tokens, static_cast<int>(s.d));
  });
  check_launch("stream_entropy_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                                  \
  template void mix_norm_forward(CudaStream, const T*, const T*, const Norm<T>&, T*, A*,          \
                                 RowStatistics<T>*, int64_t, const StreamShape&);                 \
  template void mix_norm_backward(CudaStream, const T*, const T*, const Norm<T>&,                 \
                                  const RowStatistics<T>*, const T*, const A*, T*, T*, T*, T*,    \
                                  int64_t, const StreamShape&);                                   \
  template void collect_norm_forward(CudaStream, const T*, const T*, const Norm<T>&, int64_t, A*, \
                                     RowStatistics<T>*, const StreamShape&);                      \
  template void collect_norm_backward(CudaStream, const T*, const T*, const Norm<T>&, int64_t,    \
                                      const RowStatistics<T>*, const A*, const T*, T*, T*, T*,    \
                                      const StreamShape&);                                        \
  template void mix_write_forward(CudaStream, const T*, const T*, const T*, const A*, Branch, T*, \
                                  const StreamShape&);                                            \
  template void mix_write_backward(CudaStream, const T*, const T*, const T*, const A*, Branch,    \
                                   const T*, T*, T*, T*, A*, const StreamShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

#define GEORES_INSTANTIATE(T)                                                         \
  template void stream_entropy_forward(CudaStream, const T*, T*, const StreamShape&); \
  template void stream_entropy_backward(CudaStream, const T*, const T*, T*, const StreamShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
