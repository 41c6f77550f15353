// Tiles of products whose factors are rounded to bfloat16 and whose sums are float32: what one kind
// of processor has instructions for. Both factors are packed into panels of as many lines as a tile
// is high (rows of the left matrix) or wide (columns of the right one). A panel holds, for one
// group of depths after the other, each line's values of that group: what one instruction takes.
//
// Plain types only: the files of single processors are compiled for those alone, and an inline
// function of theirs could be the one that the linker keeps for all.
#pragma once

#include <cstdint>

namespace geores::kernels {

// A factor before it is packed: `count` lines of `depth` values each.
struct Lines {
  const float* values;
  int64_t stride;
  bool by_depth;  // value k of line l at values[k · stride + l], else at values[l · stride + k]
  int64_t count, depth;
};

struct Bfloat16Tile {
  const char* instruction;  // null: there is none, rounded factors are multiplied in float32
  int64_t rows, columns;
  int64_t group;        // depths are padded with zeros to a multiple of it
  int64_t value_bytes;  // of a packed value
  // All panels of a factor, one after the other, lines beyond the last one zero.
  void (*pack_left)(const Lines& rows, void* panels);
  void (*pack_right)(const Lines& columns, void* panels);
  // c (rows, columns) = left · right of one panel each, or added to c; `depth` a multiple of group.
  void (*multiply)(const void* left, const void* right, int64_t depth, bool add, float* c,
                   int64_t ldc);
};

inline constexpr int64_t kLargestBfloat16Tile = 512;  // values of c

// That of this processor, and the one for any.
const Bfloat16Tile& bfloat16_tile();
const Bfloat16Tile& portable_bfloat16_tile();

// Another one from now on, in all threads: for tests.
void use_bfloat16_tile(const Bfloat16Tile& tile);

// Of single processors, where this build has them; null if the one it runs on is another.
const Bfloat16Tile* arm_bfloat16_tile();
const Bfloat16Tile* x86_bfloat16_tile();

}  // namespace geores::kernels
