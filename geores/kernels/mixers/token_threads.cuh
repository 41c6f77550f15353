// Mixers that one thread makes for each token: its matrix in registers, and the sizes that are compiled.
#pragma once

#include <cstdint>
#include <utility>

#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/mixers/mixers.h"
#include "geores/manifold/algebra/matrix.h"

namespace geores::kernels::device {

inline constexpr int kTokensPerBlock = 64;  // small, so that 16 000 tokens reach all multiprocessors

inline Grid grid_of(const MixerShape& s) {
  return {(s.tokens + kTokensPerBlock - 1) / kTokensPerBlock, kTokensPerBlock};
}

__device__ inline int64_t token_of_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

template <int R, int C = R, class T>
__device__ inline manifold::Matrix<T, R, C> matrix_at(const T* values, bool transposed = false) {
  manifold::Matrix<T, R, C> m;
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int j = 0; j < C; ++j) m(i, j) = values[transposed ? j * R + i : i * C + j];
  return m;
}

template <int R, int C, class T>
__device__ inline void put(const manifold::Matrix<T, R, C>& m, T* values, bool transposed = false) {
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int j = 0; j < C; ++j) values[transposed ? j * R + i : i * C + j] = m(i, j);
}

// f(size) for First to 8 streams; nothing without tokens.
template <int First, class F>
void with_mixer_size(const MixerShape& s, F&& f) {
  if (s.tokens == 0) return;
  [&]<int... N>(std::integer_sequence<int, N...>) {
    ((s.n == N + First && (f(std::integral_constant<int, N + First>()), true)) || ...);
  }
  (std::make_integer_sequence<int, 9 - First>());
}

}  // namespace geores::kernels::device
