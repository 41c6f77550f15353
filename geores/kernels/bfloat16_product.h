// Factors of products that are rounded to bfloat16, packed for the processor's tile.
#pragma once

#include "geores/kernels/bfloat16_tile.h"

namespace geores::kernels {

enum class Side { left, right };

// Packed lines, in a room of bytes() for them. What was packed for one tile is multiplied by it.
class PackedFactor {
 public:
  static int64_t bytes(Side side, int64_t lines, int64_t depth,
                       const Bfloat16Tile& tile = bfloat16_tile());

  PackedFactor(Side side, const Lines& lines, unsigned char* room,
               const Bfloat16Tile& tile = bfloat16_tile());

  const Bfloat16Tile& tile() const { return *tile_; }
  int64_t lines() const { return lines_; }
  int64_t depth() const { return depth_; }  // with the zeros at its end

  // From depth k on of the panel that begins with this line; k a multiple of the tile's group.
  const unsigned char* panel(int64_t line, int64_t k = 0) const {
    return room_ + (line * depth_ + k * panel_lines_) * tile_->value_bytes;
  }

 private:
  const Bfloat16Tile* tile_;
  int64_t panel_lines_, lines_, depth_;
  unsigned char* room_;
};

// c (rows, columns) = left · right, or added to c: all lines of both.
void multiply(const PackedFactor& left, const PackedFactor& right, bool add, float* c, int64_t ldc);

}  // namespace geores::kernels
