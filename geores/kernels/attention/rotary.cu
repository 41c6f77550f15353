#include "geores/kernels/attention/rotary.h"

#include <type_traits>

#include "geores/kernels/cuda/device.cuh"

namespace geores::kernels {
namespace {

using namespace device;

// The offsets of a run of pairs of one head: of its first values in qkv and in its part, and in the
// tables.
struct RunOffsets {
  int part;
  int64_t whole, alone, angle;
};

// f(offsets) for each run of V pairs of all heads of q, k and v, or of the first `parts` of them.
template <int V, class F>
__device__ inline void for_each_run(const HeadsShape& s, int parts, F&& f) {
  const int64_t half = s.head_width / 2, runs = half / V, per_part = s.heads * runs;
  const int64_t all = s.batch * s.length * parts * per_part;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < all;
       i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t token = i / (parts * per_part), inside = i - token * parts * per_part;
    const int part = static_cast<int>(inside / per_part);
    const int64_t rest = inside - part * per_part, head = rest / runs;
    const int64_t column = (rest - head * runs) * V, at = head * s.head_width + column;
    const int64_t row = s.heads * s.head_width;
    f(RunOffsets{part, (token * 3 + part) * row + at, token * row + at,
                 (token % s.length) * half + column});
  }
}

// Turns a run of pairs by the angles of the tables, or back.
template <int V, class T>
__device__ inline void turn(T (&a)[V], T (&b)[V], const T* cosine, const T* sine, T sign) {
  T c[V], s[V];
  load_values<V>(cosine, c);
  load_values<V>(sine, s);
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const T first = a[i], second = b[i], turned = sign * s[i];
    a[i] = first * c[i] - second * turned;
    b[i] = second * c[i] + first * turned;
  }
}

template <int V, class T, class A>
__global__ void forward(const A* qkv, const T* cosine, const T* sine, A* q, A* k, A* v,
                        HeadsShape shape) {
  wait_for_previous();
  const int64_t half = shape.head_width / 2;
  for_each_run<V>(shape, v ? 3 : 2, [&](const RunOffsets& at) {
    T a[V], b[V];
    load_values<V>(qkv + at.whole, a);
    load_values<V>(qkv + at.whole + half, b);
    if (cosine && at.part < 2) turn<V>(a, b, cosine + at.angle, sine + at.angle, T(1));
    A* to = (at.part == 0 ? q : at.part == 1 ? k : v) + at.alone;
    store_values<V>(to, a);
    store_values<V>(to + half, b);
  });
}

template <int V, class T, class A>
__global__ void backward(const A* dq, const A* dk, const A* dv, const T* cosine, const T* sine,
                         A* dqkv, HeadsShape shape) {
  wait_for_previous();
  const int64_t half = shape.head_width / 2;
  for_each_run<V>(shape, 3, [&](const RunOffsets& at) {
    const A* from = (at.part == 0 ? dq : at.part == 1 ? dk : dv) + at.alone;
    T a[V], b[V];
    load_values<V>(from, a);
    load_values<V>(from + half, b);
    if (cosine && at.part < 2) turn<V>(a, b, cosine + at.angle, sine + at.angle, T(-1));
    store_values<V>(dqkv + at.whole, a);
    store_values<V>(dqkv + at.whole + half, b);
  });
}

// The same where nothing turns: a warp copies a row of one part.
constexpr int kCopied = 16;  // bytes

__global__ void join(const uint4* dq, const uint4* dk, const uint4* dv, uint4* dqkv, int64_t tokens,
                     int row) {
  wait_for_previous();
  const int warps = static_cast<int>(blockDim.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const auto step = static_cast<int64_t>(gridDim.x) * warps;
  for (auto t = static_cast<int64_t>(blockIdx.x) * warps + threadIdx.x / 32; t < tokens; t += step)
    for (int i = lane; i < row; i += 32) {
      const uint4 q = dq[t * row + i], k = dk[t * row + i], v = dv[t * row + i];
      uint4* to = dqkv + t * 3 * row + i;
      to[0] = q, to[row] = k, to[2 * row] = v;
    }
}

template <class A>
bool join_rows(CudaStream stream, const A* dq, const A* dk, const A* dv, A* dqkv,
               const HeadsShape& s) {
  const auto bytes = s.heads * s.head_width * static_cast<int64_t>(sizeof(A));
  const auto addresses = reinterpret_cast<uintptr_t>(dq) | reinterpret_cast<uintptr_t>(dk) |
                         reinterpret_cast<uintptr_t>(dv) | reinterpret_cast<uintptr_t>(dqkv);
  if (bytes % kCopied != 0 || addresses % kCopied != 0) return false;
  const auto in_pieces = [](const A* x) { return reinterpret_cast<const uint4*>(x); };
  const auto tokens = s.batch * s.length;
  launch(stream, {blocks_for(tokens, 32), kThreads}, join, in_pieces(dq), in_pieces(dk),
         in_pieces(dv), reinterpret_cast<uint4*>(dqkv), tokens, static_cast<int>(bytes / kCopied));
  return true;
}

// f(V) with the longest run of pairs that is read in one access.
template <class T, class F>
void with_pairs(int64_t pairs, F&& f) {
  if (sizeof(T) == 4 && pairs % 4 == 0)
    f(std::integral_constant<int, 4>());
  else
    f(std::integral_constant<int, 1>());
}

Grid grid_for(const HeadsShape& s, int values, int parts = 3) {
  const auto runs = s.batch * s.length * parts * s.heads * (s.head_width / 2 / values);
  return {std::clamp<int64_t>((runs + kThreads - 1) / kThreads, 1, 1 << 15), kThreads};
}

}  // namespace

template <class T, class A>
void split_heads_forward(CudaStream stream, const A* qkv, const T* cosine, const T* sine, A* q,
                         A* k, A* v, const HeadsShape& shape) {
  with_pairs<T>(shape.head_width / 2, [&]<int V>(std::integral_constant<int, V>) {
    launch(stream, grid_for(shape, V, v ? 3 : 2), forward<V, T, A>, qkv, cosine, sine, q, k, v,
           shape);
  });
  check_launch("split_heads_forward");
}

template <class T, class A>
void split_heads_backward(CudaStream stream, const A* dq, const A* dk, const A* dv, const T* cosine,
                          const T* sine, A* dqkv, const HeadsShape& shape) {
  if (!cosine && join_rows(stream, dq, dk, dv, dqkv, shape))
    return check_launch("split_heads_backward");
  with_pairs<T>(shape.head_width / 2, [&]<int V>(std::integral_constant<int, V>) {
    launch(stream, grid_for(shape, V), backward<V, T, A>, dq, dk, dv, cosine, sine, dqkv, shape);
  });
  check_launch("split_heads_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                                   \
  template void split_heads_forward(CudaStream, const A*, const T*, const T*, A*, A*, A*,          \
                                    const HeadsShape&);                                            \
  template void split_heads_backward(CudaStream, const A*, const A*, const A*, const T*, const T*, \
                                     A*, const HeadsShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
