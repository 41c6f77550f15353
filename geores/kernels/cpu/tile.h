// Products on register tiles, for matrices that are already in a core's caches. A tile of the
// result stays in registers while the kernel goes through its rows of the left and its columns of
// the right matrix.
#pragma once

#include <type_traits>
#include <utility>

#include "geores/kernels/cpu/simd.h"

namespace geores::kernels {

// As large a tile as the registers hold (there are 32, or 16 on x86_64 before AVX-512), so that
// sums do not wait for each other.
#if defined(__aarch64__) || defined(__AVX512F__)
inline constexpr int kTileVectors = 4;
#else
inline constexpr int kTileVectors = 2;
#endif
inline constexpr int kTileRows = 5;

// Right-hand sides and results are padded to whole tiles.
template <class T>
inline constexpr int kTileColumns = kTileVectors* kLanes<T>;

// The number of rows of a left-hand side that take half of the first-level cache, but at least a
// tile's.
constexpr int64_t rows_in_cache(int64_t row_bytes, int64_t tile_rows) {
  constexpr int64_t half_of_cache = 32768;
  const auto tiles = half_of_cache / (row_bytes * tile_rows);
  return (tiles > 1 ? tiles : 1) * tile_rows;
}

// The layout of the left matrix: entry (i, k) is values[i · stride + k] for `rows` and
// values[k · stride + i] for `columns`.
enum class Left { rows, columns };

template <class T, Left L>
struct LeftMatrix {
  const T* values;
  int64_t stride;

  LeftMatrix from_row(int64_t i) const {
    return {values + (L == Left::rows ? i * stride : i), stride};
  }
  LeftMatrix from_depth(int64_t k) const {
    return {values + (L == Left::rows ? k : k * stride), stride};
  }
};
template <class T>
using LeftRows = LeftMatrix<T, Left::rows>;
template <class T>
using LeftColumns = LeftMatrix<T, Left::columns>;

namespace detail {

// f(0), …, f(N − 1) with compile-time constants. The compiler unrolls a plain loop too late to keep
// the arrays that it goes through in registers.
template <int N, class F>
[[gnu::always_inline]] inline void unrolled(F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, I>()), ...);
  }
  (std::make_integer_sequence<int, N>());
}

template <int Rows, bool Add, class T, Left L>
inline void multiply_tile(const LeftMatrix<T, L>& a, const T* b, int64_t ldb, T* c, int64_t ldc,
                          int64_t depth) {
  const T* rows[Rows];
  unrolled<Rows>([&](auto i) __attribute__((always_inline)) {
    rows[i] = a.from_row(i).values;
    if (Add) __builtin_prefetch(c + i * ldc, 1);  // c arrives while the sums are computed
  });
  Vec<T> sum[Rows * kTileVectors];
  const auto add_product = [&](int64_t k, auto first) __attribute__((always_inline)) {
    Vec<T> right[kTileVectors];
    unrolled<kTileVectors>([&](auto j) __attribute__((always_inline)) {
      right[j] = load(b + k * ldb + j * kLanes<T>);
    });
    unrolled<Rows>([&](auto i) __attribute__((always_inline)) {
      const T left = L == Left::rows ? rows[i][k] : a.values[k * a.stride + i];
      unrolled<kTileVectors>([&](auto j) __attribute__((always_inline)) {
        constexpr int at = i * kTileVectors + j;
        sum[at] = first ? left * right[j] : sum[at] + left * right[j];
      });
    });
  };
  add_product(0, std::true_type());  // cheaper than starting from zeros
#pragma GCC unroll 2
  for (int64_t k = 1; k < depth; ++k) add_product(k, std::false_type());
  unrolled<Rows * kTileVectors>([&](auto at) __attribute__((always_inline)) {
    T* to = c + at / kTileVectors * ldc + at % kTileVectors * kLanes<T>;
    store(to, Add ? load(to) + sum[at] : sum[at]);
  });
}

// Multiplies the last rows of a matrix, fewer than a tile has.
template <int Rows, bool Add, class T, Left L>
inline void multiply_last_rows(int64_t rows, const LeftMatrix<T, L>& a, const T* b, int64_t ldb,
                               T* c, int64_t ldc, int64_t depth) {
  if constexpr (Rows > 0) {
    if (rows == Rows)
      multiply_tile<Rows, Add>(a, b, ldb, c, ldc, depth);
    else
      multiply_last_rows<Rows - 1, Add>(rows, a, b, ldb, c, ldc, depth);
  }
}

}  // namespace detail

// c (rows, kTileColumns) = a (rows, depth) · b (depth, kTileColumns), or added to c; depth >= 1.
template <bool Add, class T, Left L>
inline void multiply_columns(const LeftMatrix<T, L>& a, const T* b, int64_t ldb, T* c, int64_t ldc,
                             int64_t rows, int64_t depth) {
  int64_t i = 0;
  for (; i + kTileRows <= rows; i += kTileRows)
    detail::multiply_tile<kTileRows, Add>(a.from_row(i), b, ldb, c + i * ldc, ldc, depth);
  detail::multiply_last_rows<kTileRows - 1, Add>(rows - i, a.from_row(i), b, ldb, c + i * ldc, ldc,
                                                 depth);
}

// The same for `columns` columns, a multiple of kTileColumns.
template <bool Add, class T, Left L>
inline void multiply_small(const LeftMatrix<T, L>& a, const T* b, int64_t ldb, T* c, int64_t ldc,
                           int64_t rows, int64_t columns, int64_t depth) {
  for (int64_t j = 0; j < columns; j += kTileColumns<T>)
    multiply_columns<Add>(a, b + j, ldb, c + j, ldc, rows, depth);
}

}  // namespace geores::kernels
