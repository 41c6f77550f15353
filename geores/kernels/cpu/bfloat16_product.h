// Factors of products that are rounded to bfloat16, packed for the processor's tile.
#pragma once

#include "geores/kernels/cpu/bfloat16_tile.h"

namespace geores::kernels {

enum class Side { left, right };

// Packed lines, in a room of bytes() for them. What was packed for one tile is multiplied by it.
class PackedFactor {
 public:
  static int64_t bytes(Side side, int64_t lines, int64_t depth,
                       const Bfloat16Tile& tile = bfloat16_tile());

  PackedFactor(Side side, const Lines& lines, unsigned char* room,
               const Bfloat16Tile& tile = bfloat16_tile());

  // The first `lines` of them, up to the end of their last panel, from a depth on that is a
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

// c (rows, columns) = left · right, or added to c. Of right's depths as many as left has.
void multiply(const Lines& left, const PackedFactor& right, bool add, float* c, int64_t ldc);

}  // namespace geores::kernels
