#include "geores/kernels/routed/route_maps.h"

#include "geores/kernels/cuda/device.cuh"
#include "geores/manifold/sigmoid_route.h"

namespace geores::kernels {
namespace {

using namespace device;

// Where a value of a token's raw (n, n + 2) belongs.
struct TanhEntry {
  enum class Kind { read, res, write } kind;
  int at;  // in read, res or write of one token

  __device__ TanhEntry(int column, int n) {
    const int stream = column / (n + 2), k = column % (n + 2);
    kind = k == 0 ? Kind::read : k <= n ? Kind::res : Kind::write;
    at = kind == Kind::res ? (k - 1) * n + stream : stream;
  }

  // The value there, of arrays with a matrix, or two vectors, for each token.
  template <class T>
  __device__ T& of(T* res, T* read, T* write, int64_t token, int n) const {
    if (kind == Kind::res) return res[token * n * n + at];
    return (kind == Kind::read ? read : write)[token * n + at];
  }
};

template <class T>
__global__ void tanh_forward(const T* raw, TanhRoutes<const T> routes, T* res, T* read, T* write,
                             int64_t tokens, int n) {
  wait_for_previous();
  const int columns = n * (n + 2);
  const auto at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= tokens * columns) return;
  const TanhEntry entry(static_cast<int>(at % columns), n);
  const T scale = *(entry.kind == TanhEntry::Kind::write ? routes.post_scale : routes.scale);
  entry.of(res, read, write, at / columns, n) =
      scale * tanh(raw[at]) + entry.of(routes.res, routes.pre, routes.post, 0, n);
}

// A thread has one column of several tokens.
template <class T>
__global__ void tanh_backward(const T* raw, TanhRoutes<const T> routes, const T* dres,
                              const T* dread, const T* dwrite, T* draw, TanhRoutes<T> gradients,
                              int64_t tokens, int n) {
  wait_for_previous();
  __shared__ T sums[2][kThreads];  // of each thread: for the bias, for the scale
  const int columns = n * (n + 2), teams = kThreads / columns;
  const int team = threadIdx.x / columns, column = threadIdx.x % columns;
  const TanhEntry entry(column, n);
  const T scale = *(entry.kind == TanhEntry::Kind::write ? routes.post_scale : routes.scale);
  T sum = 0, along = 0;
  const auto step = static_cast<int64_t>(gridDim.x) * teams;
  if (team < teams)
#pragma unroll 4
    for (auto t = static_cast<int64_t>(blockIdx.x) * teams + team; t < tokens; t += step) {
      const T turned = tanh(raw[t * columns + column]);
      const T d = entry.of(dres, dread, dwrite, t, n);
      draw[t * columns + column] = d * scale * (T(1) - turned * turned);
      sum += d;
      along += d * turned;
    }
  sums[0][threadIdx.x] = sum;
  sums[1][threadIdx.x] = along;
  __syncthreads();
  if (team == 0) {
    for (int i = 1; i < teams; ++i) {
      sum += sums[0][i * columns + column];
      along += sums[1][i * columns + column];
    }
    atomicAdd(&entry.of(gradients.res, gradients.pre, gradients.post, 0, n), sum);
    sums[1][threadIdx.x] = along;
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  T shared = 0, post = 0;
  for (int i = 0; i < columns; ++i)
    (TanhEntry(i, n).kind == TanhEntry::Kind::write ? post : shared) += sums[1][i];
  atomicAdd(gradients.scale, shared);
  atomicAdd(gradients.post_scale, post);
}

template <class T>
__global__ void sigmoid_forward(const T* raw, T offset, T* read, T* write, T* others, int rest,
                                int64_t tokens, int n) {
  wait_for_previous();
  const int columns = 2 * n + rest;
  const auto at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= tokens * columns) return;
  const auto token = at / columns;
  const int column = static_cast<int>(at % columns);
  const T value = raw[at];
  if (column < n)
    read[token * n + column] = manifold::read_route(value) + offset;
  else if (column < 2 * n)
    write[token * n + column - n] = manifold::write_route(value);
  else
    others[token * rest + column - 2 * n] = value;
}

template <class T>
__global__ void sigmoid_backward(const T* raw, const T* dread, const T* dwrite, const T* dothers,
                                 T* draw, int rest, int64_t tokens, int n) {
  wait_for_previous();
  const int columns = 2 * n + rest;
  const auto at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= tokens * columns) return;
  const auto token = at / columns;
  const int column = static_cast<int>(at % columns);
  if (column >= 2 * n) {
    draw[at] = dothers[token * rest + column - 2 * n];
    return;
  }
  const T s = manifold::sigmoid(raw[at]);
  const T d = column < n ? dread[token * n + column] : T(2) * dwrite[token * n + column - n];
  draw[at] = d * s * (T(1) - s);
}

int64_t blocks_of(int64_t values) { return (values + kThreads - 1) / kThreads; }

}  // namespace

template <class T>
void tanh_routes_forward(CudaStream stream, const T* raw, const TanhRoutes<const T>& routes, T* res,
                         T* read, T* write, const MixerShape& s) {
  if (s.tokens == 0) return;
  launch(stream, {blocks_of(s.tokens * s.n * (s.n + 2)), kThreads}, tanh_forward<T>, raw, routes,
         res, read, write, s.tokens, static_cast<int>(s.n));
  check_launch("tanh_routes_forward");
}

template <class T>
void tanh_routes_backward(CudaStream stream, const T* raw, const TanhRoutes<const T>& routes,
                          const T* dres, const T* dread, const T* dwrite, T* draw,
                          const TanhRoutes<T>& gradients, const MixerShape& s) {
  if (s.tokens == 0) return;
  const auto teams = kThreads / (s.n * (s.n + 2));
  launch(stream, {std::min<int64_t>((s.tokens + teams - 1) / teams, blocks_for_sums()), kThreads},
         tanh_backward<T>, raw, routes, dres, dread, dwrite, draw, gradients, s.tokens,
         static_cast<int>(s.n));
  check_launch("tanh_routes_backward");
}

template <class T>
void sigmoid_routes_forward(CudaStream stream, const T* raw, T offset, T* read, T* write, T* others,
                            int64_t rest, const MixerShape& s) {
  if (s.tokens == 0) return;
  launch(stream, {blocks_of(s.tokens * (2 * s.n + rest)), kThreads}, sigmoid_forward<T>, raw,
         offset, read, write, others, static_cast<int>(rest), s.tokens, static_cast<int>(s.n));
  check_launch("sigmoid_routes_forward");
}

template <class T>
void sigmoid_routes_backward(CudaStream stream, const T* raw, const T* dread, const T* dwrite,
                             const T* dothers, T* draw, int64_t rest, const MixerShape& s) {
  if (s.tokens == 0) return;
  launch(stream, {blocks_of(s.tokens * (2 * s.n + rest)), kThreads}, sigmoid_backward<T>, raw,
         dread, dwrite, dothers, draw, static_cast<int>(rest), s.tokens, static_cast<int>(s.n));
  check_launch("sigmoid_routes_backward");
}

#define GEORES_INSTANTIATE(T)                                                                     \
  template void tanh_routes_forward(CudaStream, const T*, const TanhRoutes<const T>&, T*, T*, T*, \
                                    const MixerShape&);                                           \
  template void tanh_routes_backward(CudaStream, const T*, const TanhRoutes<const T>&, const T*,  \
                                     const T*, const T*, T*, const TanhRoutes<T>&,                \
                                     const MixerShape&);                                          \
  template void sigmoid_routes_forward(CudaStream, const T*, T, T*, T*, T*, int64_t,              \
                                       const MixerShape&);                                        \
  template void sigmoid_routes_backward(CudaStream, const T*, const T*, const T*, const T*, T*,   \
                                        int64_t, const MixerShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
