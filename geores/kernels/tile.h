// Small matrix products in registers, for matrices that already lie in a core's first cache, where
// a BLAS call would spend its time packing.
#pragma once

#include "geores/kernels/simd.h"

namespace geores::kernels {

// Columns of a tile: four vectors. Right-hand sides and results are padded to whole tiles.
template <class T>
inline constexpr int kTileColumns = 4 * kLanes<T>;

// A matrix that is read one value at a time: entry (i, k) at values[i · row + k · column].
template <class T>
struct Strided {
  const T* values;
  int64_t row, column;
};

namespace detail {

template <int Rows, bool Accumulate, class T>
inline void multiply_tile(const Strided<T>& a, const T* b, int64_t ldb, T* c, int64_t ldc,
                          int64_t depth) {
  Vec<T> sum[Rows][4];
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < 4; ++j)
      sum[i][j] = Accumulate ? load(c + i * ldc + j * kLanes<T>) : Vec<T>{};
  for (int64_t k = 0; k < depth; ++k) {
    Vec<T> right[4];
    for (int j = 0; j < 4; ++j) right[j] = load(b + k * ldb + j * kLanes<T>);
    for (int i = 0; i < Rows; ++i) {
      const T left = a.values[i * a.row + k * a.column];
      for (int j = 0; j < 4; ++j) sum[i][j] += left * right[j];
    }
  }
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < 4; ++j) store(c + i * ldc + j * kLanes<T>, sum[i][j]);
}

template <int Rows, class T>
inline void multiply_rows(const Strided<T>& a, const T* b, int64_t ldb, bool accumulate, T* c,
                          int64_t ldc, int64_t columns, int64_t depth) {
  for (int64_t j = 0; j < columns; j += kTileColumns<T>)
    accumulate ? multiply_tile<Rows, true>(a, b + j, ldb, c + j, ldc, depth)
               : multiply_tile<Rows, false>(a, b + j, ldb, c + j, ldc, depth);
}

}  // namespace detail

// c (rows, columns) = a (rows, depth) · b (depth, columns), or added to c. `columns` is a multiple
// of kTileColumns.
template <class T>
inline void multiply_small(Strided<T> a, const T* b, int64_t ldb, bool accumulate, T* c,
                           int64_t ldc, int64_t rows, int64_t columns, int64_t depth) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4, a.values += 4 * a.row)
    detail::multiply_rows<4>(a, b, ldb, accumulate, c + i * ldc, ldc, columns, depth);
  for (; i < rows; ++i, a.values += a.row)
    detail::multiply_rows<1>(a, b, ldb, accumulate, c + i * ldc, ldc, columns, depth);
}

}  // namespace geores::kernels
