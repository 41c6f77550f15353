// A token's n residual streams of d values in the registers of a group of lanes. Each lane holds
// the same columns of all streams, so operators on the stream axis need no exchange between lanes.
#pragma once

#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/sizes.h"
#include "geores/kernels/streams/streams.h"

namespace geores::kernels::device {

template <int N, class L, class T>
struct Token {
  T at[N][L::kHeld];

  template <class A>
  __device__ void load(const A* token, int lane, int d) {
#pragma unroll
    for (int i = 0; i < N; ++i) L::load(token + i * d, lane, d, at[i]);
  }

  __device__ void load_parameters(const T* row, int lane, int d, T otherwise) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      L::load_parameters(row ? row + i * d : row, lane, d, otherwise, at[i]);
  }

  template <class A>
  __device__ void store(A* token, int lane, int d) const {
#pragma unroll
    for (int i = 0; i < N; ++i) L::store(at[i], token + i * d, lane, d);
  }

  template <class F>
  __device__ void for_each(F&& f) {  // f(stream, index in the lane's array)
#pragma unroll
    for (int i = 0; i < N; ++i)
#pragma unroll
      for (int c = 0; c < L::kHeld; ++c) f(i, c);
  }
};

// Σ_j m_ij x_j, or Σ_j m_ji x_j.
template <bool Transpose, int N, class L, class T>
__device__ inline Token<N, L, T> apply(const T* m, const Token<N, L, T>& x) {
  Token<N, L, T> y;
#pragma unroll
  for (int i = 0; i < N; ++i) {
#pragma unroll
    for (int c = 0; c < L::kHeld; ++c) y.at[i][c] = T(0);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const T entry = Transpose ? m[j * N + i] : m[i * N + j];
#pragma unroll
      for (int c = 0; c < L::kHeld; ++c) y.at[i][c] += entry * x.at[j][c];
    }
  }
  return y;
}

// Σ_j read_j x_j.
template <int N, class L, class T>
__device__ inline void collect(const T* read, const Token<N, L, T>& x, T (&c)[L::kHeld]) {
#pragma unroll
  for (int i = 0; i < L::kHeld; ++i) c[i] = T(0);
#pragma unroll
  for (int j = 0; j < N; ++j)
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) c[i] += read[j] * x.at[j][i];
}

// From g, the gradient of LN(c) tile by tile, to the gradient of c = Σ_j read_j x_j, d values. Adds
// the weight's gradient to dweight. Overwrites c.
template <int Tiles, class L, class T>
__device__ inline void collected_norm_back(T (&c)[L::kHeld], const RowStatistics<T>& s,
                                           const Token<Tiles, L, T>& g,
                                           const Token<Tiles, L, T>& weight, bool there, int d,
                                           Token<Tiles, L, T>& dweight, T (&dc)[L::kHeld]) {
  T sum_g = 0, sum_gz = 0;
#pragma unroll
  for (int i = 0; i < L::kHeld; ++i) {
    c[i] = (c[i] - s.mean) * s.inverse;
    dc[i] = T(0);
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      if (there) dweight.at[tile][i] += g.at[tile][i] * c[i];
      dc[i] += g.at[tile][i] * weight.at[tile][i];
    }
    sum_g += dc[i];
    sum_gz += dc[i] * c[i];
  }
  sum_g = group_sum<L::kGroup>(sum_g) / T(d);
  sum_gz = group_sum<L::kGroup>(sum_gz) / T(d);
#pragma unroll
  for (int i = 0; i < L::kHeld; ++i) dc[i] = s.inverse * (dc[i] - sum_g - c[i] * sum_gz);
}

// This lane's part of ⟨a_i, b_j⟩: the sum over its columns.
template <int N, class L, class T>
__device__ inline void add_inner_products(const Token<N, L, T>& a, const Token<N, L, T>& b,
                                          T (&sums)[N * N]) {
#pragma unroll
  for (int i = 0; i < N; ++i)
#pragma unroll
    for (int j = 0; j < N; ++j)
#pragma unroll
      for (int c = 0; c < L::kHeld; ++c) sums[i * N + j] += a.at[i][c] * b.at[j][c];
}

// XXᵀ in all lanes, with ‖XXᵀ‖²_F and tr(XXᵀ).
template <int N, class L, class T>
struct Gram {
  T matrix[N * N] = {}, squares = 0, trace = 0;

  __device__ explicit Gram(const Token<N, L, T>& x) {
    add_inner_products(x, x, matrix);
    sum_up();
  }
  __device__ explicit Gram(const T (&lane)[N * N]) {  // the sums over this lane's columns
#pragma unroll
    for (int i = 0; i < N * N; ++i) matrix[i] = lane[i];
    sum_up();
  }

  __device__ T bottom() const { return trace * trace + T(1e-8); }
  __device__ T entropy() const { return T(1) - squares / bottom(); }

  // The derivative of the entropy with respect to X, as an operator on X.
  __device__ void make_slope(T dentropy) {
    const T below = bottom(), factor = T(-4) / below * dentropy;
#pragma unroll
    for (int i = 0; i < N * N; ++i)
      matrix[i] = factor * (matrix[i] - (i % (N + 1) == 0 ? squares * trace / below : T(0)));
  }

 private:
  __device__ void sum_up() {
#pragma unroll
    for (int i = 0; i < N * N; ++i) {
      matrix[i] = group_sum<L::kGroup>(matrix[i]);
      squares += matrix[i] * matrix[i];
      if (i % (N + 1) == 0) trace += matrix[i];
    }
  }
};

// f(number of streams, columns) for streams of d values.
template <class T, class F>
void with_streams(int64_t n, int64_t d, F&& f) {
  with_count(DeviceStreams(), n, [&](auto count) {
    if constexpr (sizeof(T) == 4)  // double is for verification: one form is enough
      if (d % 4 == 0) {
        if (d <= 32)
          f(count, Columns<4, 8, 1>());
        else
          f(count, Columns<4, 32, 1>());
        return;
      }
    f(count, Columns<1, 32, kDeviceStreamWidth / 32>());
  });
}

}  // namespace geores::kernels::device
