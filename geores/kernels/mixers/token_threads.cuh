// Mixers that one thread makes for each token: its matrix in registers, and the sizes that are compiled.
#pragma once

#include <cstdint>

#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/mixers/mixers.h"
#include "geores/kernels/sizes.h"
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
  if (s.tokens > 0)
    with_count(WideStreams(), s.n, [&](auto n) {
      if constexpr (n >= First) f(n);
    });
}

}  // namespace geores::kernels::device
