// nvcc: -prec-div=false
#include "geores/kernels/mixers/mixers.h"

#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/mixers/mixer_lines.h"
#include "geores/kernels/mixers/quad_sinkhorn.cuh"
#include "geores/kernels/mixers/token_threads.cuh"
#include "geores/kernels/sizes.h"
#include "geores/manifold/cayley_iterative.h"
#include "geores/manifold/sinkhorn.h"

namespace geores::kernels {
namespace {

using namespace device;
using manifold::Matrix;

// Moves a block's tokens, Width values each, between global memory (coalesced) and threads. Each
// thread finds its own token in one row of shared memory, padded against bank conflicts. All
// threads must call.
template <int Width, class T>
struct Stage {
  static constexpr int kStride = Width + 1;
  T at[kTokensPerBlock * kStride];

  __device__ T* mine() { return at + threadIdx.x * kStride; }

  __device__ void load(const T* all, const T* bias, int64_t tokens) {
    for_each(tokens, [&](int64_t from, int row, int column) {
      at[row * kStride + column] = all[from] + (bias ? bias[column] : T(0));
    });
    __syncthreads();
  }
  template <class A>
  __device__ void store(A* all, int64_t tokens) {
    __syncthreads();
    for_each(tokens, [&](int64_t to, int row, int column) {
      all[to] = As<A>::from(at[row * kStride + column]);
    });
  }
  // To be called after store().
  __device__ void add_sums(T* sums, int64_t tokens) const {
    const int rows = static_cast<int>(rows_here(tokens));
    for (int column = threadIdx.x; column < Width; column += kTokensPerBlock) {
      T sum = 0;
      for (int row = 0; row < rows; ++row) sum += at[row * kStride + column];
      atomicAdd(sums + column, sum);
    }
  }

 private:
  __device__ static int64_t rows_here(int64_t tokens) {
    return min(tokens - static_cast<int64_t>(blockIdx.x) * kTokensPerBlock,
               static_cast<int64_t>(kTokensPerBlock));
  }

  template <class F>
  __device__ static void for_each(int64_t tokens, F&& f) {
    const auto first = static_cast<int64_t>(blockIdx.x) * kTokensPerBlock * Width;
    const int count = static_cast<int>(rows_here(tokens)) * Width;
#pragma unroll 8
    for (int i = threadIdx.x; i < count; i += kTokensPerBlock) f(first + i, i / Width, i % Width);
  }
};

template <int N, class T>
__global__ void cayley_routes(const T* raw, const T* bias, CayleyRoutes<T> routes, T* res, T* read,
                              T* write, int64_t tokens) {
  wait_for_previous();
  __shared__ Stage<3 * N * N, T> stage;
  stage.load(raw, bias, tokens);
  const auto t = token_of_thread();
  if (t >= tokens) return;
  const T* token = stage.mine();
  const auto pre = softmax<true>(matrix_at<N, N>(token), routes.temperature);
  const auto post = softmax<false>(matrix_at<N, N>(token + N * N), routes.temperature);
#pragma unroll
  for (int j = 0; j < N; ++j) {
    read[t * N + j] = sum_over<false>(pre, j) / T(N);
    write[t * N + j] = sum_over<true>(post, j);
  }
  put(manifold::iterative_cayley(matrix_at<N, N>(token + 2 * N * N), routes.alpha, routes.steps),
      res + t * N * N);
}

template <int N, class T, class A>
__global__ void cayley_routes_back(const T* raw, const T* bias, CayleyRoutes<T> routes,
                                   const T* dres, const T* dread, const T* dwrite, A* draw,
                                   T* dbias, int64_t tokens) {
  wait_for_previous();
  __shared__ Stage<3 * N * N, T> stage;
  stage.load(raw, bias, tokens);
  // Threads beyond the last token repeat it; their results are not stored.
  const auto t = min(token_of_thread(), tokens - 1);
  T* token = stage.mine();
  Matrix<T, N> dpre, dpost;
#pragma unroll
  for (int i = 0; i < N; ++i)
#pragma unroll
    for (int j = 0; j < N; ++j) {
      dpre(i, j) = dread[t * N + j] / T(N);
      dpost(i, j) = dwrite[t * N + i];
    }
  const auto pre = softmax<true>(matrix_at<N, N>(token), routes.temperature);
  put(softmax_backward<true>(pre, dpre, routes.temperature), token);
  const auto post = softmax<false>(matrix_at<N, N>(token + N * N), routes.temperature);
  put(softmax_backward<false>(post, dpost, routes.temperature), token + N * N);
  put(manifold::iterative_cayley_backward(matrix_at<N, N>(token + 2 * N * N), routes.alpha,
                                          routes.steps, matrix_at<N, N>(dres + t * N * N)),
      token + 2 * N * N);
  stage.store(draw, tokens);
  if (dbias) stage.add_sums(dbias, tokens);
}

template <class T>
__device__ inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

template <class T>
__device__ inline manifold::SinkhornOptions options_of(const GuardedRoutes<T>& routes) {
  return {.iterations = routes.iterations, .bound = 0, .guard = routes.guard};
}

template <int N, class T>
__global__ void guarded_routes(const T* raw, const T* bias, GuardedRoutes<T> routes, T* res,
                               T* read, T* write, int64_t tokens) {
  wait_for_previous();
  __shared__ Stage<2 * N + N * N, T> stage;
  stage.load(raw, bias, tokens);
  const auto t = token_of_thread();
  if (t >= tokens) return;
  const T* token = stage.mine();
#pragma unroll
  for (int i = 0; i < N; ++i) {
    read[t * N + i] = sigmoid(token[i]);
    write[t * N + i] = T(2) * sigmoid(token[N + i]);
  }
  put(manifold::sinkhorn(matrix_at<N>(token + 2 * N), options_of(routes)), res + t * N * N);
}

template <int N, class T, class A>
__global__ void guarded_routes_back(const T* raw, const T* bias, GuardedRoutes<T> routes,
                                    const T* dres, const T* dread, const T* dwrite, A* draw,
                                    T* dbias, int64_t tokens) {
  wait_for_previous();
  __shared__ Stage<2 * N + N * N, T> stage;
  stage.load(raw, bias, tokens);
  // Threads beyond the last token repeat it; their results are not stored.
  const auto t = min(token_of_thread(), tokens - 1);
  T* token = stage.mine();
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const T open = sigmoid(token[i]), half = sigmoid(token[N + i]);
    token[i] = dread[t * N + i] * open * (T(1) - open);
    token[N + i] = dwrite[t * N + i] * T(2) * half * (T(1) - half);
  }
  const auto d = manifold::sinkhorn_backward_unrolled(
      matrix_at<N>(token + 2 * N), matrix_at<N>(dres + t * N * N), options_of(routes));
  put(d, token + 2 * N);
  stage.store(draw, tokens);
  if (dbias) stage.add_sums(dbias, tokens);
}

// The same for n = 4 with a lane for each row (quad_sinkhorn.cuh).

// A lane's part of its token's 24 values: one of read, one of write, a row of res.
template <class T>
struct QuadToken {
  T read, write;
  QuadRow<T> res;

  __device__ QuadToken(const T* raw, const T* bias, int64_t token, int i) {
    const T* from = raw + token * 24;
    const auto at = [&](int k) { return from[k] + (bias ? bias[k] : T(0)); };
    read = at(i);
    write = at(4 + i);
#pragma unroll
    for (int j = 0; j < 4; ++j) res.at[j] = at(8 + 4 * i + j);
  }

  // Adds the values of all tokens of a block to sums (24); all threads must call.
  __device__ void add_sums(T* sums, int i) const {
    __shared__ T shared[24];
    if (threadIdx.x < 24) shared[threadIdx.x] = T(0);
    __syncthreads();
    const auto add = [&](int k, T value) {
      value = sum_over_groups<4>(value);
      if (threadIdx.x % 32 < 4) atomicAdd(shared + k, value);
    };
    add(i, read);
    add(4 + i, write);
#pragma unroll
    for (int j = 0; j < 4; ++j) add(8 + 4 * i + j, res.at[j]);
    __syncthreads();
    if (threadIdx.x < 24) atomicAdd(sums + threadIdx.x, shared[threadIdx.x]);
  }
};

template <class T>
__device__ inline QuadRow<T> start_of(const QuadRow<T>& logits, const GuardedRoutes<T>& routes) {
  return quad_start(logits, options_of(routes), [](T x) { return manifold::exponential(x); });
}

template <class T>
__global__ void guarded_routes_by_quad(const T* raw, const T* bias, GuardedRoutes<T> routes, T* res,
                                       T* read, T* write, int64_t tokens) {
  wait_for_previous();
  const auto thread = token_of_thread();
  const bool there = thread < 4 * tokens;
  const auto t = min(thread / 4, tokens - 1);
  const int i = threadIdx.x % 4;
  const QuadToken<T> token(raw, bias, t, i);
  auto p = start_of(token.res, routes);
  manifold::sinkhorn_iterations(p, options_of(routes));
  if (!there) return;
  read[t * 4 + i] = sigmoid(token.read);
  write[t * 4 + i] = T(2) * sigmoid(token.write);
#pragma unroll
  for (int j = 0; j < 4; ++j) res[(t * 4 + i) * 4 + j] = p.at[j];
}

template <class T, class A>
__global__ void guarded_routes_back_by_quad(const T* raw, const T* bias, GuardedRoutes<T> routes,
                                            const T* dres, const T* dread, const T* dwrite, A* draw,
                                            T* dbias, int64_t tokens) {
  wait_for_previous();
  const auto thread = token_of_thread();
  const bool there = thread < 4 * tokens;
  const auto t = min(thread / 4, tokens - 1);
  const int i = threadIdx.x % 4;
  QuadToken<T> token(raw, bias, t, i);
  const auto start = start_of(token.res, routes);
  QuadRow<T> d;
#pragma unroll
  for (int j = 0; j < 4; ++j) d.at[j] = dres[(t * 4 + i) * 4 + j];
  manifold::sinkhorn_iterations_backward(start, options_of(routes), d);
  const T open = sigmoid(token.read), half = sigmoid(token.write), counts = there ? T(1) : T(0);
  token.read = counts * dread[t * 4 + i] * open * (T(1) - open);
  token.write = counts * dwrite[t * 4 + i] * T(2) * half * (T(1) - half);
#pragma unroll
  for (int j = 0; j < 4; ++j) token.res.at[j] = counts * d.at[j] * start.at[j];
  if (there) {
    A* to = draw + t * 24;
    to[i] = As<A>::from(token.read);
    to[4 + i] = As<A>::from(token.write);
    store_values<4>(to + 8 + 4 * i, token.res.at);
  }
  if (dbias) token.add_sums(dbias, i);
}

unsigned quad_blocks(int64_t tokens) {
  return static_cast<unsigned>((4 * tokens + kThreads - 1) / kThreads);
}

// f(size, blocks).
template <class F>
void with_mixers(const MixerShape& s, F&& f) {
  const auto blocks = static_cast<unsigned>((s.tokens + kTokensPerBlock - 1) / kTokensPerBlock);
  if (blocks == 0) return;
  with_count(DeviceMixers(), s.n, [&](auto n) { f(n, blocks); });
}

}  // namespace

template <class T>
void routes_forward(CudaStream stream, const T* raw, const T* bias, const CayleyRoutes<T>& routes,
                    T* res, T* read, T* write, const MixerShape& s) {
  with_mixers(s, [&](auto n, unsigned blocks) {
    launch(stream, {blocks, kTokensPerBlock}, cayley_routes<n.value, T>, raw, bias, routes, res,
           read, write, s.tokens);
  });
  check_launch("cayley routes_forward");
}

template <class T>
void clear_sums(CudaStream stream, T* sums, int64_t count) {
  if (sums) cudaMemsetAsync(sums, 0, static_cast<size_t>(count) * sizeof(T), stream);
}

template <class T, class A>
void routes_backward(CudaStream stream, const T* raw, const T* bias, const CayleyRoutes<T>& routes,
                     const T* dres, const T* dread, const T* dwrite, A* draw, T* dbias,
                     const MixerShape& s) {
  clear_sums(stream, dbias, 3 * s.n * s.n);
  with_mixers(s, [&](auto n, unsigned blocks) {
    launch(stream, {blocks, kTokensPerBlock}, cayley_routes_back<n.value, T, A>, raw, bias, routes,
           dres, dread, dwrite, draw, dbias, s.tokens);
  });
  check_launch("cayley routes_backward");
}

template <class T>
void routes_forward(CudaStream stream, const T* raw, const T* bias, const GuardedRoutes<T>& routes,
                    T* res, T* read, T* write, const MixerShape& s) {
  if (s.n == 4 && s.tokens > 0)
    launch(stream, {quad_blocks(s.tokens), kThreads}, guarded_routes_by_quad<T>, raw, bias, routes,
           res, read, write, s.tokens);
  else
    with_mixers(s, [&](auto n, unsigned blocks) {
      launch(stream, {blocks, kTokensPerBlock}, guarded_routes<n.value, T>, raw, bias, routes, res,
             read, write, s.tokens);
    });
  check_launch("guarded routes_forward");
}

template <class T, class A>
void routes_backward(CudaStream stream, const T* raw, const T* bias, const GuardedRoutes<T>& routes,
                     const T* dres, const T* dread, const T* dwrite, A* draw, T* dbias,
                     const MixerShape& s) {
  clear_sums(stream, dbias, 2 * s.n + s.n * s.n);
  if (s.n == 4 && s.tokens > 0)
    launch(stream, {quad_blocks(s.tokens), kThreads}, guarded_routes_back_by_quad<T, A>, raw, bias,
           routes, dres, dread, dwrite, draw, dbias, s.tokens);
  else
    with_mixers(s, [&](auto n, unsigned blocks) {
      launch(stream, {blocks, kTokensPerBlock}, guarded_routes_back<n.value, T, A>, raw, bias,
             routes, dres, dread, dwrite, draw, dbias, s.tokens);
    });
  check_launch("guarded routes_backward");
}

#define GEORES_INSTANTIATE(T)                                                                      \
  template void routes_forward(CudaStream, const T*, const T*, const CayleyRoutes<T>&, T*, T*, T*, \
                               const MixerShape&);                                                 \
  template void routes_forward(CudaStream, const T*, const T*, const GuardedRoutes<T>&, T*, T*,    \
                               T*, const MixerShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

#define GEORES_INSTANTIATE(T, A)                                                                   \
  template void routes_backward(CudaStream, const T*, const T*, const CayleyRoutes<T>&, const T*,  \
                                const T*, const T*, A*, T*, const MixerShape&);                    \
  template void routes_backward(CudaStream, const T*, const T*, const GuardedRoutes<T>&, const T*, \
                                const T*, const T*, A*, T*, const MixerShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
