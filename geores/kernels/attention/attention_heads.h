// One head of one sequence as the right factor of attention's products, packed for tiles of T
// itself or of values rounded to BFloat16. Positions and widths are padded with zeros to whole
// tiles.
#pragma once

#include <algorithm>

#include "geores/kernels/attention/attention.h"
#include "geores/kernels/cpu/bfloat16_product.h"
#include "geores/kernels/cpu/tile.h"

namespace geores::kernels {

// For scores: products of rows with the transpose of a head.
template <class T, class P = T>
class HeadColumns {
 public:
  using Packed = T;
  static int64_t padded_length(const AttentionShape& s) {
    return padded<T>(s.length, kTileColumns<T>);
  }
  static int64_t buffer_size(const AttentionShape& s) { return s.head_width * padded_length(s); }

  // Packed in tiles of kTileColumns positions, (head_width, kTileColumns) each.
  HeadColumns(const T* values, const AttentionShape& s, int64_t stride, Packed* buffer)
      : tiles_(buffer), depth_(s.head_width) {
    std::fill_n(buffer, buffer_size(s), T(0));
    for (int64_t t = 0; t < s.length; ++t) {
      const T* row = values + t * stride;
      T* column = buffer + t / kTileColumns<T> * kTileColumns<T> * depth_ + t % kTileColumns<T>;
      for (int64_t k = 0; k < depth_; ++k) column[k * kTileColumns<T>] = row[k];
    }
  }

  // The number of columns that multiply() computes for the first `seen` positions.
  static int64_t columns(int64_t seen) { return padded<T>(seen, kTileColumns<T>); }

  // scores (rows, columns(seen)) = queries · this; at most as many rows as a tile has.
  void multiply(const LeftRows<T>& queries, T* scores, int64_t lds, int64_t rows,
                int64_t seen) const {
    for (int64_t j = 0; j < seen; j += kTileColumns<T>)
      multiply_columns<false>(queries, tiles_ + j * depth_, kTileColumns<T>, scores + j, lds, rows,
                              depth_);
  }

 private:
  T* tiles_;
  int64_t depth_;
};

// For sums over positions: products of weights with a head.
template <class T, class P = T>
class HeadRows {
 public:
  using Packed = T;
  static int64_t padded_width(const AttentionShape& s) {
    return padded<T>(s.head_width, kTileColumns<T>);
  }
  static int64_t buffer_size(const AttentionShape& s) { return s.length * padded_width(s); }

  HeadRows(const T* values, const AttentionShape& s, int64_t stride, Packed* buffer)
      : rows_(buffer), width_(padded_width(s)) {
    for (int64_t t = 0; t < s.length; ++t) {
      T* row = rows_ + t * width_;
      for_each_vector<T>(width_, [&](int64_t k, int64_t) {
        const auto count = std::clamp<int64_t>(s.head_width - k, 0, kLanes<T>);
        store(row + k, load_up_to(values + t * stride + k, count));
      });
    }
  }

  // sums (rows, padded width) = weights · the first `seen` positions.
  void multiply(const LeftRows<T>& weights, T* sums, int64_t rows, int64_t seen) const {
    multiply_small<false>(weights, rows_, width_, sums, width_, rows, width_, seen);
  }

  // sums += weightsᵀ · `count` positions starting at `first`, which is a multiple of a tile's rows.
  void add_transposed(const LeftColumns<T>& weights, int64_t first, int64_t count, T* sums,
                      int64_t rows) const {
    multiply_small<true>(weights, rows_ + first * width_, width_, sums, width_, rows, width_,
                         count);
  }

 private:
  T* rows_;
  int64_t width_;
};

template <>
class HeadColumns<float, BFloat16> {
 public:
  using Packed = unsigned char;
  static int64_t padded_length(const AttentionShape& s) { return columns(s.length); }
  static int64_t buffer_size(const AttentionShape& s) {
    return PackedFactor::bytes(Side::right, s.length, s.head_width);
  }

  HeadColumns(const float* values, const AttentionShape& s, int64_t stride, Packed* buffer)
      : positions_(Side::right, {values, stride, false, s.length, s.head_width}, buffer),
        depth_(s.head_width) {}

  static int64_t columns(int64_t seen) { return padded<float>(seen, bfloat16_tile().columns); }

  void multiply(const LeftRows<float>& queries, float* scores, int64_t lds, int64_t rows,
                int64_t seen) const {
    kernels::multiply({queries.values, queries.stride, false, rows, depth_},
                      positions_.part(columns(seen)), false, scores, lds);
  }

 private:
  PackedFactor positions_;
  int64_t depth_;
};

template <>
class HeadRows<float, BFloat16> {
 public:
  using Packed = unsigned char;
  static int64_t padded_width(const AttentionShape& s) {
    return padded<float>(s.head_width, bfloat16_tile().columns);
  }
  static int64_t buffer_size(const AttentionShape& s) {
    return PackedFactor::bytes(Side::right, s.head_width, s.length);
  }

  HeadRows(const float* values, const AttentionShape& s, int64_t stride, Packed* buffer)
      : width_(padded_width(s)),
        head_(PackedFactor(Side::right, {values, stride, true, s.head_width, s.length}, buffer)
                  .part(width_)) {}

  void multiply(const LeftRows<float>& weights, float* sums, int64_t rows, int64_t seen) const {
    kernels::multiply({weights.values, weights.stride, false, rows, seen}, head_, false, sums,
                      width_);
  }

  void add_transposed(const LeftColumns<float>& weights, int64_t first, int64_t count, float* sums,
                      int64_t rows) const {
    kernels::multiply({weights.values, weights.stride, true, rows, count},
                      head_.part(width_, first), true, sums, width_);
  }

 private:
  int64_t width_;
  PackedFactor head_;
};

}  // namespace geores::kernels
