#include "geores/kernels/cpu/product.h"

#include <algorithm>
#include <cstring>

#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/cpu/tile.h"

namespace geores::kernels {
namespace {

constexpr int64_t kFewRows = 24;  // with fewer rows in all, the BLAS is faster than packing
// Depths multiplied at once: a tile's columns of b stay in the first-level cache.
constexpr int64_t kDeepest = 512;

// Calls f with a whole tile of c. The last tile of a row may have fewer columns; it is computed in
// a buffer and copied back.
template <class T, class F>
void on_whole_tile(T* c, int64_t ldc, int64_t rows, int64_t columns, F&& f) {
  if (columns >= kTileColumns<T>) return f(c, ldc);
  T* aside = scratch<RightHandSide<T>, T>(rows * kTileColumns<T>);
  for (int64_t i = 0; i < rows; ++i) std::copy_n(c + i * ldc, columns, aside + i * kTileColumns<T>);
  f(aside, int64_t{kTileColumns<T>});
  for (int64_t i = 0; i < rows; ++i) std::copy_n(aside + i * kTileColumns<T>, columns, c + i * ldc);
}

template <class T>
int64_t rows_in_cache(int64_t depth) {
  return kernels::rows_in_cache(
      std::clamp<int64_t>(depth, 1, kDeepest) * static_cast<int64_t>(sizeof(T)), kTileRows);
}

// Copies columns first..first + Width of b to (depth, Width); columns beyond `columns` become
// zeros.
template <int Width, class T>
void pack_columns(const T* b, int64_t ldb, int64_t depth, int64_t first, int64_t columns, T* to) {
  const auto width = std::min<int64_t>(Width, columns - first);
  for (int64_t k = 0; k < depth; ++k, to += Width) {
    const T* from = b + k * ldb + first;
    if (width == Width)
      std::memcpy(to, from, Width * sizeof(T));  // a constant size: instructions, not a call
    else
      std::fill(std::copy_n(from, width, to), to + Width, T(0));
  }
}

template <class T>
void pack_transposed(const T* b, int64_t ldb, int64_t depth, int64_t first, int64_t columns,
                     T* to) {
  const auto width = std::min<int64_t>(kTileColumns<T>, columns - first);
  for (int64_t j = 0; j < kTileColumns<T>; ++j)
    for (int64_t k = 0; k < depth; ++k)
      to[k * kTileColumns<T> + j] = j < width ? b[(first + j) * ldb + k] : T(0);
}

struct GradientSpace;

}  // namespace

template <class T, class P>
int64_t RightHandSide<T, P>::packed_size(int64_t depth, int64_t columns) {
  return depth * padded<T>(columns, kTileColumns<T>);
}

template <class T, class P>
RightHandSide<T, P>::RightHandSide(Transposed transposed, const T* b, int64_t ldb, int64_t depth,
                                   int64_t columns, int64_t rows, Packed* buffer)
    : transposed_(transposed),
      b_(b),
      ldb_(ldb),
      depth_(depth),
      columns_(columns),
      packed_(rows < kFewRows || depth == 0 ? nullptr : buffer) {
  if (!packed_) return;
  for (int64_t j = 0; j < columns; j += kTileColumns<T>)
    transposed == Transposed::yes
        ? pack_transposed(b, ldb, depth, j, columns, buffer + j * depth)
        : pack_columns<kTileColumns<T>>(b, ldb, depth, j, columns, buffer + j * depth);
}

template <class T, class P>
void RightHandSide<T, P>::multiply(const T* a, int64_t lda, bool add, T* c, int64_t ldc,
                                   int64_t rows) const {
  if (!packed_) {
    kernels::multiply(Transposed::no, transposed_, rows, columns_, depth_, a, lda, b_, ldb_,
                      T(add ? 1 : 0), c, ldc);
    return;
  }
  // Takes so many rows at a time that the columns of a tile still fit the first-level cache.
  const auto step = rows_in_cache<T>(depth_);
  for (int64_t begin = 0; begin < rows; begin += step) {
    const auto count = std::min(step, rows - begin);
    const auto left = LeftRows<T>{a, lda}.from_row(begin);
    for (int64_t j = 0; j < columns_; j += kTileColumns<T>)
      on_whole_tile(c + begin * ldc + j, ldc, count, columns_ - j, [&](T* to, int64_t ldto) {
        const T* right = packed_ + j * depth_;
        if (!add)
          multiply_columns<false>(left, right, kTileColumns<T>, to, ldto, count,
                                  std::min(kDeepest, depth_));
        for (int64_t k = add ? 0 : kDeepest; k < depth_; k += kDeepest)
          multiply_columns<true>(left.from_depth(k), right + k * kTileColumns<T>, kTileColumns<T>,
                                 to, ldto, count, std::min(kDeepest, depth_ - k));
      });
  }
}

// Both factors are packed: unpacked rows, several kilobytes apart, would share few lines of the
// first-level cache.
template <class T, class P>
void add_transposed_product(const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc,
                            int64_t m, int64_t n, int64_t rows) {
  for (int64_t begin = 0; begin < rows; begin += kDeepest) {
    const auto depth = std::min(kDeepest, rows - begin);
    const auto step = rows_in_cache<T>(depth);
    T* right = scratch<GradientSpace, T>((padded<T>(n, kTileColumns<T>) + step) * depth);
    T* left = right + padded<T>(n, kTileColumns<T>) * depth;
    for (int64_t j = 0; j < n; j += kTileColumns<T>)
      pack_columns<kTileColumns<T>>(b + begin * ldb, ldb, depth, j, n, right + j * depth);
    for (int64_t first = 0; first < m; first += step) {
      const auto count = std::min(step, m - first);
      for (int64_t i = 0; i < count; i += kTileRows)
        pack_columns<kTileRows>(a + begin * lda, lda, depth, first + i, m, left + i * depth);
      for (int64_t j = 0; j < n; j += kTileColumns<T>)
        on_whole_tile(c + first * ldc + j, ldc, count, n - j, [&](T* to, int64_t ldto) {
          for (int64_t i = 0; i < count; i += kTileRows)
            multiply_columns<true>(LeftColumns<T>{left + i * depth, kTileRows}, right + j * depth,
                                   kTileColumns<T>, to + i * ldto, ldto,
                                   std::min<int64_t>(kTileRows, count - i), depth);
        });
    }
  }
}

#define GEORES_INSTANTIATE(T)                                                                   \
  template class RightHandSide<T>;                                                              \
  template void add_transposed_product<T, T>(const T*, int64_t, const T*, int64_t, T*, int64_t, \
                                             int64_t, int64_t, int64_t);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
