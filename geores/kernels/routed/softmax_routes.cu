#include "geores/kernels/routed/softmax_routes.h"

#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/mixers/mixer_lines.h"
#include "geores/kernels/sizes.h"
#include "geores/manifold/cayley_general.h"
#include "geores/manifold/cayley_iterative.h"

namespace geores::kernels {
namespace {

using namespace device;
using manifold::Matrix;

// The packed rows. A block has one of them.
template <class T>
__global__ void pack(SoftmaxGenerator<const T> g, T* packed, T* packed_bias, SoftmaxShape s) {
  wait_for_previous();
  __shared__ T sums[2][kThreads / 32];
  const int width = static_cast<int>(s.width), r = static_cast<int>(blockIdx.x);
  T* to = packed + r * s.width;
  if (r == s.differences()) {  // of LN
    for (int c = threadIdx.x; c < width; c += kThreads) to[c] = T(1) / T(width);
    return;
  }
  const auto [at, minus] = difference_of(r, static_cast<int>(s.n));
  const T *a = g.weight + at * s.width, *b = g.weight + minus * s.width;
  const auto weighted = [&](int c) {
    const T difference = a[c] - b[c];
    return g.norm_weight ? difference * g.norm_weight[c] : difference;
  };
  T sum = 0, shift = 0;
  for (int c = threadIdx.x; c < width; c += kThreads) {
    sum += weighted(c);
    if (g.norm_bias) shift += (a[c] - b[c]) * g.norm_bias[c];
  }
  sum = group_sum<32>(sum);
  shift = group_sum<32>(shift);
  if (threadIdx.x % 32 == 0) {
    sums[0][threadIdx.x / 32] = sum;
    sums[1][threadIdx.x / 32] = shift;
  }
  __syncthreads();
  T mean = 0, bias = g.bias ? g.bias[at] - g.bias[minus] : T(0);
  for (int i = 0; i < kThreads / 32; ++i) {
    mean += sums[0][i];
    bias += sums[1][i];
  }
  mean = s.layer ? mean / T(width) : T(0);
  for (int c = threadIdx.x; c < width; c += kThreads) to[c] = weighted(c) - mean;
  if (threadIdx.x == 0) packed_bias[r] = bias;
}

// A thread has one column of one row of the weights; behind them, with LN, of the norm. So no sum waits
// for another one to be stored.
template <class T>
__global__ void unpack(SoftmaxGenerator<const T> g, const T* dpacked, const T* dpacked_bias,
                       SoftmaxGenerator<T> d, SoftmaxShape s, int columns) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  auto* means = reinterpret_cast<T*>(memory);  // of the rows of dpacked, for LN
  const int width = static_cast<int>(s.width), differences = static_cast<int>(s.differences()),
            n = static_cast<int>(s.n), row = static_cast<int>(blockIdx.x) / columns;
  const bool of_norm = row == s.outputs();
  // How the row enters difference r.
  const auto sign = [&](int r) {
    const auto [at, minus] = difference_of(r, n);
    return at == row ? 1 : minus == row ? -1 : 0;
  };
  for (int r = threadIdx.x / 32; r < differences; r += kThreads / 32) {
    if (!of_norm && sign(r) == 0) continue;
    T sum = 0;
    if (s.layer)
      for (int c = threadIdx.x % 32; c < width; c += 32) sum += dpacked[r * s.width + c];
    sum = group_sum<32>(sum) / T(width);
    if (threadIdx.x % 32 == 0) means[r] = sum;
  }
  __syncthreads();
  const int column_block = static_cast<int>(blockIdx.x) % columns,
            c = column_block * kThreads + static_cast<int>(threadIdx.x);
  if (c < width && of_norm) {
    T dweight = 0, dshift = 0;
    for (int r = 0; r < differences; ++r) {
      const auto [at, minus] = difference_of(r, n);
      const T difference = g.weight[at * s.width + c] - g.weight[minus * s.width + c];
      dweight += (dpacked[r * s.width + c] - means[r]) * difference;
      dshift += dpacked_bias[r] * difference;
    }
    if (d.norm_weight) d.norm_weight[c] += dweight;
    if (d.norm_bias) d.norm_bias[c] += dshift;
  } else if (c < width) {
    const T weight = g.norm_weight ? g.norm_weight[c] : T(1),
            shift = g.norm_bias ? g.norm_bias[c] : T(0);
    T sum = 0;
    for (int r = 0; r < differences; ++r)
      if (const int times = sign(r))
        sum +=
            T(times) * ((dpacked[r * s.width + c] - means[r]) * weight + dpacked_bias[r] * shift);
    d.weight[row * s.width + c] += sum;
  }
  if (of_norm || !d.bias || column_block != 0 || threadIdx.x != 0) return;
  T sum = 0;
  for (int r = 0; r < differences; ++r) sum += T(sign(r)) * dpacked_bias[r];
  d.bias[row] += sum;
}

// A thread for each token. Its values are a row of shared memory, whose stride is odd against bank
// conflicts; rows go to and from global memory together.
constexpr int kTokens = 64;

template <class T>
struct Rows {
  T* at;
  int stride;
  int64_t first;  // token of the block
  int here;       // tokens

  __device__ Rows(T* memory, int values, int64_t tokens)
      : at(memory),
        stride(values | 1),
        first(static_cast<int64_t>(blockIdx.x) * kTokens),
        here(static_cast<int>(min(static_cast<int64_t>(kTokens), tokens - first))) {}

  __device__ T* mine() const { return at + threadIdx.x * stride; }
  __device__ int64_t token() const { return first + threadIdx.x; }
  __device__ bool there() const { return static_cast<int>(threadIdx.x) < here; }

  // f(value in shared memory, position in an array with `width` values for each token).
  template <class F>
  __device__ void for_each(int width, int begin, F&& f) const {
    for (int i = threadIdx.x; i < here * width; i += kTokens)
      f(at[i / width * stride + begin + i % width], first * width + i);
  }
  // The sums of `parts` consecutive arrays. Many loads are on their way together: a block
  // is too small to hide the time of each.
  __device__ void load_sums(const T* all, int width, int parts, int64_t part) const {
    constexpr int at_once = 8;
    for (int begin = threadIdx.x; begin < here * width; begin += at_once * kTokens) {
      T sums[at_once] = {};
#pragma unroll 2
      for (int p = 0; p < parts; ++p)
#pragma unroll
        for (int k = 0; k < at_once; ++k)
          if (begin + k * kTokens < here * width)
            sums[k] += all[p * part + first * width + begin + k * kTokens];
#pragma unroll
      for (int k = 0; k < at_once; ++k) {
        const int i = begin + k * kTokens;
        if (i < here * width) at[i / width * stride + i % width] = sums[k];
      }
    }
  }
  __device__ void load(const T* all, int width, int begin) const {
    for_each(width, begin, [&](T& value, int64_t from) { value = all[from]; });
  }
  __device__ void store(T* all, int width, int begin) const {
    for_each(width, begin, [&](T& value, int64_t to) { all[to] = value; });
  }
};

constexpr int stride_of(int64_t values) { return static_cast<int>(values) | 1; }

// The norm's part of a token's raw values: raw = plain · scale + bias.
template <class T>
struct LayerScale {
  T scale = 1, slope = 0;  // slope: d scale / d a

  __device__ LayerScale(bool layer, T a) {
    if (!layer) return;
    constexpr T least = T(1e-6);  // of 1 − a², where digits end
    const T rest = T(1) - a * a;
    scale = T(1) / sqrt(max(rest, least));
    if (rest > least) slope = a * scale * scale * scale;
  }
};

// The logits that have these differences.
template <int N, class T>
struct Logits {
  Matrix<T, N> pre{}, post{}, res{};

  // f(logit, its difference's number): logits that are not named stay 0.
  template <class M, class F>
  static __device__ void for_each(M& pre, M& post, M& res, bool mixes, F&& f) {
    constexpr int each = N * (N - 1);
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int k = 0; k < N - 1; ++k) {
        f(pre(i, k), i * (N - 1) + k);
        f(post(k, i), each + k * N + i);
      }
    if (!mixes) return;
    int r = 2 * each;
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int j = i + 1; j < N; ++j) f(res(i, j), r++);
  }

  __device__ Logits(const T* plain, const T* bias, T scale, bool mixes) {
    for_each(pre, post, res, mixes,
             [&](T& logit, int r) { logit = plain[r] * scale + (bias ? bias[r] : T(0)); });
  }
};

template <int N, class T>
__device__ inline Matrix<T, N> mixer_of(const Matrix<T, N>& h, const SoftmaxRouting<T>& routing) {
  if (routing.steps >= 0) return manifold::iterative_cayley(h, routing.alpha, routing.steps);
  return manifold::cayley_transform((T(-0.5) * routing.alpha) * (h - transpose(h)));
}

template <int N, class T>
__device__ inline Matrix<T, N> mixer_back(const Matrix<T, N>& h, const SoftmaxRouting<T>& routing,
                                          const Matrix<T, N>& dres) {
  if (routing.steps >= 0)
    return manifold::iterative_cayley_backward(h, routing.alpha, routing.steps, dres);
  const auto dm = manifold::cayley_transform_backward(mixer_of(h, routing), dres);
  return (T(-0.5) * routing.alpha) * (dm - transpose(dm));
}

template <int N, class T>
__global__ void __launch_bounds__(kTokens)
    routes_of_sums(SoftmaxRoutesForward<T> p, SoftmaxRouting<T> routing, SoftmaxShape s,
                   int slices) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const int count = static_cast<int>(s.count()), routes = 2 * N + N * N;
  const Rows<T> rows(reinterpret_cast<T*>(memory), max(count + 1, routes), s.rows);
  T* mine = rows.mine();
  rows.load_sums(p.partial, count + 1, slices, s.rows * (count + 1));
  __syncthreads();
  if (rows.there()) {
    const T inverse = T(1) / sqrt(mine[count] / T(s.width) + p.eps);
    for (int r = 0; r < count; ++r) mine[r] *= inverse;
    if (p.inverse) p.inverse[rows.token()] = inverse;
  }
  __syncthreads();
  if (p.plain) rows.store(p.plain, count, 0);
  __syncthreads();
  if (rows.there()) {
    const LayerScale<T> norm(s.layer, mine[count - 1]);
    const Logits<N, T> logits(mine, p.bias, norm.scale, s.mixes);
    const auto pre = softmax<true>(logits.pre, routing.temperature),
               post = softmax<false>(logits.post, routing.temperature);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      mine[j] = sum_over<false>(pre, j) / T(N);
      mine[N + j] = sum_over<true>(post, j);
    }
    if (s.mixes) {
      const auto res = mixer_of(logits.res, routing);
#pragma unroll
      for (int i = 0; i < N * N; ++i) mine[2 * N + i] = res.at[i / N][i % N];
    }
  }
  __syncthreads();
  rows.store(p.read, N, 0);
  rows.store(p.write, N, N);
  if (s.mixes) rows.store(p.res, N * N, 2 * N);
}

template <int N, class T>
__global__ void __launch_bounds__(kTokens)
    factors_of_routes(SoftmaxRoutesBackward<T> p, SoftmaxRouting<T> routing, SoftmaxShape s) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const int count = static_cast<int>(s.count()), differences = static_cast<int>(s.differences()),
            routes = 2 * N + N * N;
  auto* start = reinterpret_cast<T*>(memory);
  const Rows<T> rows(start, count + 1, s.rows),
      given(start + kTokens * rows.stride, max(routes, differences), s.rows);
  rows.load(p.plain, count, 0);
  given.load(p.dread, N, 0);
  given.load(p.dwrite, N, N);
  if (s.mixes) given.load(p.dres, N * N, 2 * N);
  __syncthreads();
  T *mine = rows.mine(), *d = given.mine();
  if (rows.there()) {
    const T a = mine[count - 1];
    const LayerScale<T> norm(s.layer, a);
    const Logits<N, T> logits(mine, p.bias, norm.scale, s.mixes);
    Matrix<T, N> dpre, dpost, dres{};
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int j = 0; j < N; ++j) {
        dpre(i, j) = d[j] / T(N);
        dpost(i, j) = d[N + i];
        if (s.mixes) dres(i, j) = d[2 * N + i * N + j];
      }
    dpre = softmax_backward<true>(softmax<true>(logits.pre, routing.temperature), dpre,
                                  routing.temperature);
    dpost = softmax_backward<false>(softmax<false>(logits.post, routing.temperature), dpost,
                                    routing.temperature);
    if (s.mixes) dres = mixer_back(logits.res, routing, dres);
    const T inverse = p.inverse[rows.token()];
    T da = 0, along = 0;
    Logits<N, T>::for_each(dpre, dpost, dres, s.mixes, [&](T& draw, int r) {
      const T plain = mine[r], dplain = draw * norm.scale;
      da += draw * plain * norm.slope;
      along += dplain * plain;
      d[r] = draw;
      mine[r] = dplain * inverse;
    });
    if (s.layer) {
      along += da * a;
      mine[differences] = da * inverse;
    }
    mine[count] = -along * inverse * inverse / T(s.width);
  }
  __syncthreads();
  rows.store(p.factors, count + 1, 0);
  for (int r = threadIdx.x; r < differences; r += kTokens) {
    T sum = 0;
    for (int row = 0; row < rows.here; ++row) sum += given.at[row * given.stride + r];
    atomicAdd(p.dbias + r, sum);
  }
}

// f(number of streams, blocks).
template <class F>
void with_streams_of(const SoftmaxShape& s, F&& f) {
  const auto blocks = (s.rows + kTokens - 1) / kTokens;
  if (blocks == 0) return;
  with_count(DeviceMixers(), s.n, [&](auto n) { f(n, blocks); });
}

template <class T>
size_t bytes_of(int64_t stride) {
  return static_cast<size_t>(kTokens * stride) * sizeof(T);
}

}  // namespace

template <class T>
void pack_differences(CudaStream stream, const SoftmaxGenerator<const T>& generator, T* packed,
                      T* packed_bias, const SoftmaxShape& s) {
  launch(stream, {s.count(), kThreads}, pack<T>, generator, packed, packed_bias, s);
  check_launch("pack_differences");
}

template <class T>
void unpack_difference_gradients(CudaStream stream, const SoftmaxGenerator<const T>& generator,
                                 const T* dpacked, const T* dpacked_bias,
                                 const SoftmaxGenerator<T>& gradients, const SoftmaxShape& s) {
  const auto columns = (s.width + kThreads - 1) / kThreads, rows = s.outputs() + (s.layer ? 1 : 0);
  launch(stream, {columns * rows, kThreads, static_cast<size_t>(s.differences()) * sizeof(T)},
         unpack<T>, generator, dpacked, dpacked_bias, gradients, s, static_cast<int>(columns));
  check_launch("unpack_difference_gradients");
}

template <class T>
void softmax_routes_forward(CudaStream stream, const SoftmaxRoutesForward<T>& p,
                            const SoftmaxRouting<T>& routing, const SoftmaxShape& s) {
  const auto slices = static_cast<int>(wide_projection_slices<T>(s.projection()));
  with_streams_of(s, [&](auto n, int64_t blocks) {
    const auto values = std::max(s.count() + 1, s.n * (s.n + 2));
    launch(stream, {blocks, kTokens, bytes_of<T>(stride_of(values))}, routes_of_sums<n.value, T>, p,
           routing, s, slices);
  });
  check_launch("softmax_routes_forward");
}

template <class T>
void softmax_routes_backward(CudaStream stream, const SoftmaxRoutesBackward<T>& p,
                             const SoftmaxRouting<T>& routing, const SoftmaxShape& s) {
  with_streams_of(s, [&](auto n, int64_t blocks) {
    const auto values = std::max(s.differences(), s.n * (s.n + 2));
    launch(stream, {blocks, kTokens, bytes_of<T>(stride_of(s.count() + 1) + stride_of(values))},
           factors_of_routes<n.value, T>, p, routing, s);
  });
  check_launch("softmax_routes_backward");
}

#define GEORES_INSTANTIATE(T)                                                               \
  template void pack_differences(CudaStream, const SoftmaxGenerator<const T>&, T*, T*,      \
                                 const SoftmaxShape&);                                      \
  template void unpack_difference_gradients(CudaStream, const SoftmaxGenerator<const T>&,   \
                                            const T*, const T*, const SoftmaxGenerator<T>&, \
                                            const SoftmaxShape&);                           \
  template void softmax_routes_forward(CudaStream, const SoftmaxRoutesForward<T>&,          \
                                       const SoftmaxRouting<T>&, const SoftmaxShape&);      \
  template void softmax_routes_backward(CudaStream, const SoftmaxRoutesBackward<T>&,        \
                                        const SoftmaxRouting<T>&, const SoftmaxShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
