// Tokens with wide residual streams: a warp has a token and walks along its columns, with the same
// columns of all streams in a lane. So streams may be as wide as a row in shared memory can be.
#pragma once

#include <bit>
#include <utility>

#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/sizes.h"
#include "geores/kernels/streams/streams.h"

namespace geores::kernels::device {

inline constexpr int kWideWarps = 4, kWideBlock = 32 * kWideWarps;

// f(token) for the tokens of this warp.
template <class F>
__device__ inline void for_each_warp_token(int64_t tokens, F&& f) {
  const auto warps = static_cast<int64_t>(gridDim.x) * kWideWarps;
  for (auto t = static_cast<int64_t>(blockIdx.x) * kWideWarps + threadIdx.x / 32; t < tokens;
       t += warps)
    f(t);
}

// f(column) for each run of V consecutive columns of this lane.
template <int V, class F>
__device__ inline void for_each_run(int d, F&& f) {
  for (int column = static_cast<int>(threadIdx.x % 32) * V; column < d; column += 32 * V) f(column);
}

// V values of each of N streams, d values apart.
template <int N, int V, class T>
struct Piece {
  T at[N][V];

  template <class S>
  __device__ void load(const S* token, int column, int d) {
#pragma unroll
    for (int j = 0; j < N; ++j) load_values<V>(token + j * d + column, at[j]);
  }
};

template <int N, int V, class T>
__device__ inline void collect(const T (&read)[N], const Piece<N, V, T>& x, T (&c)[V]) {
#pragma unroll
  for (int i = 0; i < V; ++i) c[i] = T(0);
#pragma unroll
  for (int j = 0; j < N; ++j)
#pragma unroll
    for (int i = 0; i < V; ++i) c[i] += read[j] * x.at[j][i];
}

// Sums Count values over the warp and writes them.
template <int Count, class T>
__device__ inline void store_sums(const T (&values)[Count], T* all) {
  const int lane = threadIdx.x % 32;
  if constexpr (std::has_single_bit(static_cast<unsigned>(Count))) {
    SharedSums<32, Count, T>(values).store(all, lane);
  } else {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const T sum = group_sum<32>(values[i]);
      if (lane == i % 32) all[i] = sum;
    }
  }
}

// The norm's weight, value by value: parameters may start at any address of a flat buffer.
template <int V, class T>
__device__ inline void load_weight(const T* weight, int column, T (&to)[V]) {
#pragma unroll
  for (int i = 0; i < V; ++i) to[i] = weight ? weight[column + i] : T(1);
}

__host__ __device__ constexpr int64_t in_fours(int64_t size) { return (size + 3) / 4 * 4; }

// f(number of streams, values of one access) for the numbers of streams that are compiled. S is the
// type of the state: 16 bytes of it are read at once, of bfloat16 where the streams of a piece fit the
// registers and are long enough for all lanes. Double is for verification: one form is enough.
template <class S, class Numbers, class F>
void with_wide_streams(Numbers numbers, const StreamShape& s, F&& f) {
  if (s.tokens == 0) return;
  with_count(numbers, s.n, [&](auto n) {
    if constexpr (sizeof(S) == 2 && n.value <= 4)
      if (s.d % 8 == 0 && s.d >= 256) return f(n, std::integral_constant<int, 8>());
    if constexpr (sizeof(S) <= 4)
      if (s.d % 4 == 0) return f(n, std::integral_constant<int, 4>());
    f(n, std::integral_constant<int, 1>());
  });
}

// A block for every kWideWarps tokens, `most` at most.
inline int64_t wide_blocks(int64_t tokens, int64_t most = 1 << 20) {
  return std::min((tokens + kWideWarps - 1) / kWideWarps, most);
}

template <class T>
size_t wide_rows(int64_t d) {  // one for each warp
  return static_cast<size_t>(kWideWarps * in_fours(d)) * sizeof(T);
}

}  // namespace geores::kernels::device
