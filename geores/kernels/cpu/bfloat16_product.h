// Factors of products, rounded to bfloat16 and packed for the tile of this processor.
#pragma once

#include "geores/kernels/cpu/bfloat16_tile.h"

namespace geores::kernels {

enum class Side { left, right };

// Packed lines in memory that the caller gives, bytes() of it. A factor is multiplied by the tile
// that it was packed for.
class PackedFactor {
 public:
  static int64_t bytes(Side side, int64_t lines, int64_t depth,
                       const Bfloat16Tile& tile = bfloat16_tile());

  PackedFactor(Side side, const Lines& lines, unsigned char* buffer,
               const Bfloat16Tile& tile = bfloat16_tile());

  // The first `lines` lines, up to the end of their last panel, starting at depth `from_depth`, a
  // multiple of the tile's group.
  PackedFactor part(int64_t lines, int64_t from_depth = 0) const;

  const Bfloat16Tile& tile() const { return *tile_; }
  int64_t lines() const { return lines_; }
  const unsigned char* panel(int64_t line) const {
    return first_ + line * panel_depth_ * tile_->value_bytes;
  }

 private:
  const Bfloat16Tile* tile_;
  int64_t panel_lines_, panel_depth_, lines_;
  unsigned char* first_;
};

// c (rows, columns) = left · right, or added to c. Uses as many of right's depths as left has.
void multiply(const Lines& left, const PackedFactor& right, bool add, float* c, int64_t ldc);

}  // namespace geores::kernels
