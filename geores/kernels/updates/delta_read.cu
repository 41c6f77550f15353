#include "geores/kernels/updates/delta_read.h"

#include "geores/kernels/cuda/activations.cuh"
#include "geores/kernels/streams/wide.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr double kNormEps = 1e-5;

// Row k of [β; V].
template <class T>
__device__ inline T* projection(const DeltaReadParameters<T>& p, int k, int d) {
  return k == 0 ? p.beta : p.value + (k - 1) * d;
}
template <class T>
__device__ inline T* bias(const DeltaReadParameters<T>& p, int k) {
  return k == 0 ? p.beta_bias : p.value_bias + (k - 1);
}

// A warp has a token. All parameters that are multiplied with columns are in shared memory, where they
// are aligned: (1 + N, d) projections, then the norm's weight.
template <int N, int V, class T, class A>
__global__ void __launch_bounds__(kWideBlock)
    delta_read(DeltaReadParameters<const T> p, const T* x, A* h, RowStatistics<T>* statistics, T* l,
               int64_t tokens, int d) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const int stride = static_cast<int>(in_fours(d)), lane = threadIdx.x % 32;
  auto* projections = reinterpret_cast<T*>(memory);
  T *norm_weight = projections + (1 + N) * stride,
    *row = norm_weight + (1 + threadIdx.x / 32) * stride;  // each lane reads only its own values
  for (int i = threadIdx.x; i < (2 + N) * d; i += kWideBlock) {
    const int k = i / d, c = i % d;
    projections[k * stride + c] = k <= N ? projection(p, k, d)[c] : p.norm_weight[c];
  }
  T share[N];
#pragma unroll
  for (int j = 0; j < N; ++j) share[j] = p.weight[j];
  __syncthreads();
  for_each_warp_token(tokens, [&](int64_t t) {
    T sum = 0, products[1 + N] = {};
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> in;
      T c[V];
      in.load(x + t * N * d, column, d);
      collect(share, in, c);
      store_values<V>(row + column, c);
#pragma unroll
      for (int i = 0; i < V; ++i) sum += c[i];
#pragma unroll
      for (int k = 0; k <= N; ++k) {
        T w[V];
        load_values<V>(projections + k * stride + column, w);
#pragma unroll
        for (int i = 0; i < V; ++i) products[k] += w[i] * c[i];
      }
    });
    const T mean = group_sum<32>(sum) / T(d);
    T squares = 0;
    for_each_run<V>(d, [&](int column) {
      T c[V];
      load_values<V>(row + column, c);
#pragma unroll
      for (int i = 0; i < V; ++i) squares += (c[i] - mean) * (c[i] - mean);
    });
    const T inverse = T(1) / sqrt(group_sum<32>(squares) / T(d) + T(kNormEps));
    for_each_run<V>(d, [&](int column) {
      T c[V], w[V];
      load_values<V>(row + column, c);
      load_values<V>(norm_weight + column, w);
#pragma unroll
      for (int i = 0; i < V; ++i) c[i] = (c[i] - mean) * inverse * w[i];
      store_values<V>(h + t * d + column, c);
    });
#pragma unroll
    for (int k = 0; k <= N; ++k) {
      const T product = group_sum<32>(products[k]);
      if (lane == k) l[t * (1 + N) + k] = product + *bias(p, k);
    }
    if (lane == 0) statistics[t] = {mean, inverse};
  });
}

// The contribution of a whole token to each of its columns.
template <int N, class T>
struct TokenSums {
  T mean, inverse, mean_g, mean_gz;  // of the norm, and of its gradient
  T dl[1 + N], erase[N];             // erase: for y
};

// A thread has V columns of all tokens of its team: the parameters of its columns and their gradients
// stay in registers. A warp first sums up a token; then all warps of the team go through these tokens.
template <int N, int V, class T, class A>
__global__ void __launch_bounds__(V == 4 ? 256 : 1024)
    delta_read_back(DeltaReadBackward<T, A> p, int64_t tokens, int d, int team_warps) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32,
            team = warp / team_warps, teams = warps / team_warps,
            column = (warp % team_warps * 32 + lane) * V;
  const bool there = column < d;
  auto* sums = reinterpret_cast<T*>(memory);  // (2 + N, d): gradients of projections and norm
  T* norm_weight = sums + (2 + N) * in_fours(d);
  auto* of_tokens = reinterpret_cast<TokenSums<N, T>*>(norm_weight + in_fours(d));  // (2, warps)
  for (int i = threadIdx.x; i < (2 + N) * d; i += blockDim.x) sums[i] = T(0);
  for (int i = threadIdx.x; i < d; i += blockDim.x) norm_weight[i] = p.parameters.norm_weight[i];

  T share[N], weight[V], projections[1 + N][V];
#pragma unroll
  for (int j = 0; j < N; ++j) share[j] = p.parameters.weight[j];
#pragma unroll
  for (int i = 0; i < V; ++i) {
    weight[i] = there ? p.parameters.norm_weight[column + i] : T(0);
#pragma unroll
    for (int k = 0; k <= N; ++k)
      projections[k][i] = there ? projection(p.parameters, k, d)[column + i] : T(0);
  }
  T dshare[N] = {}, dweight[V] = {}, dprojections[1 + N][V] = {}, dbias = 0;  // of lanes 0 to N
  __syncthreads();

  int buffer = 0;
  for (auto first = static_cast<int64_t>(blockIdx.x) * warps; first < tokens;
       first += static_cast<int64_t>(gridDim.x) * warps, buffer = 1 - buffer) {
    if (const auto t = first + warp; t < tokens) {
      T squares = 0, sum_g = 0, sum_gz = 0;
#pragma unroll 4  // loads of several runs are on their way together
      for (int at = lane * V; at < d; at += 32 * V) {
        T h[V], g[V], w[V];
        load_values<V>(p.h + t * d + at, h);
        load_values<V>(p.dh + t * d + at, g);
        load_values<V>(norm_weight + at, w);
#pragma unroll
        for (int i = 0; i < V; ++i) {
          sum_g += g[i] * w[i];
          sum_gz += g[i] * h[i];
        }
        if (p.y) {
          T branch[V];
          load_values<V>(p.y + t * d + at, branch);
#pragma unroll
          for (int i = 0; i < V; ++i) squares += branch[i] * branch[i];
        }
      }
      sum_g = group_sum<32>(sum_g) / T(d);
      sum_gz = group_sum<32>(sum_gz) / T(d);
      T length = sqrt(group_sum<32>(squares));
      if (!(length > T(kSmallestNorm))) length = T(kSmallestNorm);
      auto& token = of_tokens[buffer * warps + warp];
      if (lane == 0) {
        const auto s = p.statistics[t];
        token.mean = s.mean, token.inverse = s.inverse;
        token.mean_g = sum_g, token.mean_gz = sum_gz;
      }
      if (lane <= N) {
        const T dl = p.dl[t * (1 + N) + lane];
        token.dl[lane] = dl;
        dbias += dl;
        if (lane > 0) token.erase[lane - 1] = p.y ? -p.dv[t * (1 + N) + lane] / length : T(0);
      }
    }
    __syncthreads();
    for (int k = 0; k < team_warps; ++k) {
      const auto t = first + team * team_warps + k;
      if (t >= tokens || !there) break;
      const auto& token = of_tokens[buffer * warps + team * team_warps + k];
      Piece<N, V, T> in, g = {};
      T c[V], dc[V], branch[V] = {};
      in.load(p.x + t * N * d, column, d);
      if (p.dout) g.load(p.dout + t * N * d, column, d);
      load_values<V>(p.dh + t * d + column, dc);
      if (p.y) load_values<V>(p.y + t * d + column, branch);
      collect(share, in, c);
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const T z = (c[i] - token.mean) * token.inverse;
        dweight[i] += dc[i] * z;
        dc[i] = token.inverse * (dc[i] * weight[i] - token.mean_g - z * token.mean_gz);
#pragma unroll
        for (int r = 0; r <= N; ++r) {
          dprojections[r][i] += token.dl[r] * c[i];
          dc[i] += token.dl[r] * projections[r][i];
        }
      }
#pragma unroll
      for (int j = 0; j < N; ++j) {
#pragma unroll
        for (int i = 0; i < V; ++i) {
          dshare[j] += in.at[j][i] * dc[i];
          g.at[j][i] += share[j] * dc[i] + token.erase[j] * branch[i];
        }
        store_values<V>(p.dx + (t * N + j) * d + column, g.at[j]);
      }
    }
  }

  // Each team in its turn; then one addition for each block.
  for (int turn = 0; turn < teams; ++turn) {
    if (turn == team && there)
#pragma unroll
      for (int i = 0; i < V; ++i) {
#pragma unroll
        for (int r = 0; r <= N; ++r) sums[r * d + column + i] += dprojections[r][i];
        sums[(1 + N) * d + column + i] += dweight[i];
      }
    __syncthreads();
  }
  for (int i = threadIdx.x; i < (2 + N) * d; i += blockDim.x) {
    const int k = i / d;
    T* to = k <= N ? projection(p.gradients, k, d) : p.gradients.norm_weight;
    atomicAdd(to + i % d, sums[i]);
  }
  if (lane <= N) atomicAdd(bias(p.gradients, lane), dbias);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const T sum = group_sum<32>(dshare[j]);
    if (lane == j) atomicAdd(p.gradients.weight + j, sum);
  }
}

}  // namespace

template <class T, class A>
void delta_read_forward(CudaStream stream, const DeltaReadParameters<const T>& parameters,
                        const T* x, A* h, RowStatistics<T>* statistics, T* l,
                        const StreamShape& s) {
  with_wide_streams<T>(WideStreams(), s, [&](auto n, auto v) {
    const auto rows = static_cast<size_t>((2 + n.value + kWideWarps) * in_fours(s.d));
    // Each block loads the parameters: few blocks, all of them at once.
    launch(stream, {wide_blocks(s.tokens, 3 * blocks_for_sums()), kWideBlock, rows * sizeof(T)},
           delta_read<n.value, v.value, T, A>, parameters, x, h, statistics, l, s.tokens,
           static_cast<int>(s.d));
  });
  check_launch("delta_read_forward");
}

template <class T, class A>
void delta_read_backward(CudaStream stream, const DeltaReadBackward<T, A>& p,
                         const StreamShape& s) {
  with_wide_streams<T>(WideStreams(), s, [&](auto n, auto v) {
    constexpr int64_t most_warps = 8;
    const int64_t team = (s.d + 32 * v.value - 1) / (32 * v.value),
                  warps = team * std::max<int64_t>(1, most_warps / team),
                  blocks = std::min((s.tokens + warps - 1) / warps, int64_t{blocks_for_sums()});
    const auto bytes = static_cast<size_t>((3 + n.value) * in_fours(s.d)) * sizeof(T) +
                       2 * static_cast<size_t>(warps) * sizeof(TokenSums<n.value, T>);
    launch(stream, {blocks, 32 * warps, bytes}, delta_read_back<n.value, v.value, T, A>, p,
           s.tokens, static_cast<int>(s.d), static_cast<int>(team));
  });
  check_launch("delta_read_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                                  \
  template void delta_read_forward(CudaStream, const DeltaReadParameters<const T>&, const T*, A*, \
                                   RowStatistics<T>*, T*, const StreamShape&);                    \
  template void delta_read_backward(CudaStream, const DeltaReadBackward<T, A>&, const StreamShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
