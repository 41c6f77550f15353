// Operations on one token's n residual streams of d values while they are in the first-level cache.
#pragma once

#include <algorithm>

#include "geores/kernels/cpu/simd.h"
#include "geores/kernels/cpu/tile.h"
#include "geores/kernels/norms/norm.h"
#include "geores/kernels/streams/streams.h"

namespace geores::kernels {

// n as a constant if it is one of the compiled sizes, so that loops over streams are unrolled.
template <int N>
struct Streams {
  int64_t n;
  constexpr int64_t count() const { return N > 0 ? N : n; }
  // So few streams that a token's operator stays in registers.
  static constexpr bool few = N > 0 && N <= 4;
};

template <class F>
void with_streams(int64_t n, F&& f) {
  switch (n) {
    case 2:
      return f(Streams<2>{n});
    case 4:
      return f(Streams<4>{n});
    case 8:
      return f(Streams<8>{n});
    case 16:
      return f(Streams<16>{n});
    default:
      return f(Streams<0>{n});
  }
}

template <int N>
inline constexpr int kCapacity = N > 0 ? N : static_cast<int>(kMostStreams);

template <int N, class F>
[[gnu::always_inline]] inline void for_each_stream(Streams<N> streams, F&& f) {
  if constexpr (Streams<N>::few)
    detail::unrolled<N>(f);
  else
    for (int64_t i = 0; i < streams.count(); ++i) f(i);
}

// y_i = Σ_j m_ij x_j, or Σ_j m_ji x_j if Transpose; if Add, plus share_i b_i, where b_i is at b +
// i·step. x and y (n, d) must not overlap.
template <bool Transpose, bool Add, int N, class T>
inline void apply_operator(Streams<N> streams, const T* m, const T* x, const T* share, const T* b,
                           int64_t step, T* y, int64_t d) {
  const auto n = streams.count();
  // Writes one stream of y after the other: memory is faster with rows written from front to back.
  for_each_stream(
      streams, [&](auto i) __attribute__((always_inline)) {
        T entries[kCapacity<N>];  // copies that no store to y can change
        for_each_stream(
            streams, [&](auto j) __attribute__((always_inline)) {
              entries[j] = Transpose ? m[j * n + i] : m[i * n + j];
            });
        const T share_here = Add ? share[i] : T(0);
        const T* b_here = Add ? b + i * step : nullptr;
        for_each_vector<T>(
            d, [&](int64_t at, int64_t count) __attribute__((always_inline)) {
              Vec<T> sum{};
              if constexpr (Add) sum = share_here * load_up_to(b_here + at, count);
              for_each_stream(
                  streams, [&](auto j) __attribute__((always_inline)) {
                    sum += entries[j] * load_up_to(x + j * d + at, count);
                  });
              store_up_to(y + i * d + at, sum, count);
            });
      });
}

template <bool Transpose, int N, class T>
inline void apply_operator(Streams<N> streams, const T* m, const T* x, T* y, int64_t d) {
  const T* none = nullptr;
  apply_operator<Transpose, false>(streams, m, x, none, none, 0, y, d);
}

// dm_ij += ⟨t_i, x_j⟩. If Last, also dlast_j += ⟨last, x_j⟩.
template <bool Last, int N, class T>
inline void add_inner_products(Streams<N> streams, const T* t, const T* last, const T* x, T* dm,
                               T* dlast, int64_t d) {
  const auto n = streams.count(), rows = n + (Last ? 1 : 0);
  constexpr int group = Streams<N>::few ? N + (Last ? 1 : 0) : 1;  // rows that share a pass over x
  for (int64_t first = 0; first < rows; first += group) {
    Vec<T> sum[group * kCapacity<N>] = {};
    for_each_vector<T>(
        d, [&](int64_t at, int64_t count) __attribute__((always_inline)) {
          Vec<T> right[kCapacity<N>];
          for_each_stream(
              streams, [&](auto j) __attribute__((always_inline)) {
                right[j] = load_up_to(x + j * d + at, count);
              });
          detail::unrolled<group>([&](auto k) __attribute__((always_inline)) {
            const auto i = first + k;
            const auto left = load_up_to((Last && i == n ? last : t + i * d) + at, count);
            for_each_stream(
                streams, [&](auto j) __attribute__((always_inline)) {
                  sum[k * kCapacity<N> + j] += left * right[j];
                });
          });
        });
    detail::unrolled<group>([&](auto k) __attribute__((always_inline)) {
      const auto i = first + k;
      T* to = Last && i == n ? dlast : dm + i * n;
      for_each_stream(
          streams, [&](auto j) __attribute__((always_inline)) {
            to[j] += sum_of_lanes<T>(sum[k * kCapacity<N> + j]);
          });
    });
  }
}

template <int N, class T>
inline void add_inner_products(Streams<N> streams, const T* t, const T* x, T* dm, int64_t d) {
  add_inner_products<false>(streams, t, static_cast<const T*>(nullptr), x, dm,
                            static_cast<T*>(nullptr), d);
}

// c = Σ_j read_j x_j, one stream after the other. This is often the first read of a token's row,
// and memory is faster from front to back.
template <int N, class T>
inline void collect(Streams<N> streams, const T* read, const T* x, T* c, int64_t d) {
  for (int64_t j = 0; j < streams.count(); ++j) {
    const T share = read[j];
    for_each_vector<T>(d, [&](int64_t at, int64_t count) {
      Vec<T> sum = share * load_up_to(x + j * d + at, count);
      if (j > 0) sum += load_up_to(c + at, count);
      store_up_to(c + at, sum, count);
    });
  }
}

// From dh, the gradient of `tiles` copies of LN(c) side by side, with c as above, to dc. Adds to
// dweight. The caller gives memory for d values.
template <int N, class T>
inline void collect_norm_gradient(Streams<N> streams, const T* read, const T* x,
                                  const Norm<T>& norm, int64_t tiles,
                                  const RowStatistics<T>& statistics, const T* dh, T* dc,
                                  T* dweight, T* buffer, int64_t d) {
  T* c = buffer;
  collect(streams, read, x, c, d);
  // The gradient of the normalized c, summed over its copies.
  for_each_vector<T>(d, [&](int64_t at, int64_t count) {
    const Vec<T> z = (load_up_to(c + at, count) - statistics.mean) * statistics.inverse;
    Vec<T> sum{};
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const auto column = tile * d + at;
      const auto g = load_up_to(dh + column, count);
      store_up_to(dweight + column, load_up_to(dweight + column, count) + g * z, count);
      sum += norm.weight ? g * load_up_to(norm.weight + column, count) : g;
    }
    store_up_to(dc + at, sum, count);
  });
  const auto plain = Norm<T>{.kind = norm.kind, .eps = norm.eps};
  normalize_row_backward<T>(c, statistics, plain, dc, false, dc, nullptr, nullptr, d);
}

}  // namespace geores::kernels
