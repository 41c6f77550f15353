#include "geores/kernels/cpu/bfloat16_product.h"

#include <algorithm>

#include "geores/kernels/cpu/parallel.h"
#include "geores/kernels/cpu/product.h"
#include "geores/kernels/cpu/tile.h"

namespace geores::kernels {
namespace {

struct LeftSpace;
struct RightSpace;

int64_t panel_lines(Side side, const Bfloat16Tile& tile) {
  return side == Side::left ? tile.rows : tile.columns;
}

// c = left · right for two packed factors, or added to c.
void multiply_packed(const PackedFactor& left, const PackedFactor& right, int64_t depth, bool add,
                     float* c, int64_t ldc) {
  const auto& tile = right.tile();
  if (tile.begin) tile.begin();
  for (int64_t j = 0; j < right.lines(); j += tile.columns)
    for (int64_t i = 0; i < left.lines(); i += tile.rows) {
      float* to = c + i * ldc + j;
      const auto rows = std::min(tile.rows, left.lines() - i),
                 columns = std::min(tile.columns, right.lines() - j);
      if (depth > 0 && rows == tile.rows && columns == tile.columns) {
        tile.multiply(left.panel(i), right.panel(j), depth, add, to, ldc);
        continue;
      }
      // A tile at the edge of c is computed in a buffer of its own, because it may reach beyond c.
      float aside[kLargestBfloat16Tile] = {};
      if (depth > 0)
        tile.multiply(left.panel(i), right.panel(j), depth, false, aside, tile.columns);
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t column = 0; column < columns; ++column) {
          float& value = to[row * ldc + column];
          value = aside[row * tile.columns + column] + (add ? value : 0.0f);
        }
    }
  if (tile.end) tile.end();
}

}  // namespace

int64_t PackedFactor::bytes(Side side, int64_t lines, int64_t depth, const Bfloat16Tile& tile) {
  return padded<float>(lines, panel_lines(side, tile)) * padded<float>(depth, tile.group) *
         tile.value_bytes;
}

PackedFactor::PackedFactor(Side side, const Lines& lines, unsigned char* buffer,
                           const Bfloat16Tile& tile)
    : tile_(&tile),
      panel_lines_(panel_lines(side, tile)),
      panel_depth_(padded<float>(lines.depth, tile.group)),
      lines_(lines.count),
      first_(buffer) {
  (side == Side::left ? tile.pack_left : tile.pack_right)(lines, buffer);
}

PackedFactor PackedFactor::part(int64_t lines, int64_t from_depth) const {
  auto part = *this;
  part.lines_ = lines;
  part.first_ += from_depth * panel_lines_ * tile_->value_bytes;
  return part;
}

// Packs so many of left's lines at a time that a panel of right's still fits the first-level cache.
void multiply(const Lines& left, const PackedFactor& right, bool add, float* c, int64_t ldc) {
  const auto& tile = right.tile();
  const auto depth = padded<float>(left.depth, tile.group);
  const auto step = rows_in_cache(std::max<int64_t>(depth, 1) * tile.value_bytes, tile.rows);
  auto* buffer = scratch<LeftSpace, unsigned char>(
      PackedFactor::bytes(Side::left, std::min(step, left.count), depth, tile));
  for (int64_t first = 0; first < left.count; first += step) {
    auto block = left;
    block.values += first * (left.by_depth ? 1 : left.stride);
    block.count = std::min(step, left.count - first);
    multiply_packed(PackedFactor(Side::left, block, buffer, tile), right, depth, add,
                    c + first * ldc, ldc);
  }
}

int64_t RightHandSide<float, BFloat16>::packed_size(int64_t depth, int64_t columns) {
  return PackedFactor::bytes(Side::right, columns, depth);
}

RightHandSide<float, BFloat16>::RightHandSide(Transposed transposed, const float* b, int64_t ldb,
                                              int64_t depth, int64_t columns, int64_t,
                                              Packed* buffer)
    : depth_(depth),
      packed_(Side::right, {b, ldb, transposed == Transposed::no, columns, depth}, buffer) {}

void RightHandSide<float, BFloat16>::multiply(const float* a, int64_t lda, bool add, float* c,
                                              int64_t ldc, int64_t rows) const {
  kernels::multiply({a, lda, false, rows, depth_}, packed_, add, c, ldc);
}

template <>
void add_transposed_product<float, BFloat16>(const float* a, int64_t lda, const float* b,
                                             int64_t ldb, float* c, int64_t ldc, int64_t m,
                                             int64_t n, int64_t rows) {
  auto* buffer = scratch<RightSpace, unsigned char>(PackedFactor::bytes(Side::right, n, rows));
  const PackedFactor right(Side::right, {b, ldb, true, n, rows}, buffer);
  kernels::multiply({a, lda, true, m, rows}, right, true, c, ldc);
}

}  // namespace geores::kernels
