// Products with factors rounded to bfloat16 and sums in float32, computed in tiles of the result. A
// Bfloat16Tile holds the functions for one kind of processor. Both factors are packed into panels.
// A panel of the left matrix has as many rows as a tile is high; a panel of the right matrix has as
// many columns as a tile is wide. Depths come in groups, as many as one instruction takes: a panel
// holds the first group of each of its lines, then the second group of each, and so on.
//
// This header uses plain types only. Each processor's file is compiled with that processor's
// instructions. If it shared an inline function with other files, the linker might keep the copy
// that other processors cannot run.
#pragma once

#include <cstdint>

namespace geores::kernels {

// A factor before packing: `count` lines of `depth` values each.
struct Lines {
  const float* values;
  int64_t stride;
  // Value k of line l is values[k · stride + l] if true, values[l · stride + k] if false.
  bool by_depth;
  int64_t count, depth;
};

struct Bfloat16Tile {
  // Null if the processor has none; then the rounded factors are multiplied in float32.
  const char* instruction;
  int64_t rows, columns;
  int64_t group;        // depths are padded with zeros to a multiple of it
  int64_t value_bytes;  // bytes of a packed value
  // Pack all lines of a factor, panel after panel; lines that fill up the last panel are zero.
  void (*pack_left)(const Lines& rows, void* panels);
  void (*pack_right)(const Lines& columns, void* panels);
  // c (rows, columns) = one left panel · one right panel, or added to c; `depth` is a multiple of
  // group.
  void (*multiply)(const void* left, const void* right, int64_t depth, bool add, float* c,
                   int64_t ldc);
  // Called by a thread before and after calls of multiply, if not null: tile registers are set up
  // and given back. In between the thread calls nothing that could use them too.
  void (*begin)();
  void (*end)();
};

inline constexpr int64_t kLargestBfloat16Tile = 512;  // values of c

// The tile that products use in this process.
const Bfloat16Tile& bfloat16_tile();

// Every tile that this processor runs, the preferred one first and the float32 tile that runs on any
// processor last; then null.
const Bfloat16Tile* const* bfloat16_tiles();

// Makes all threads use this tile from now on. For tests.
void use_bfloat16_tile(const Bfloat16Tile& tile);

// The tiles of particular processors: null where this build or this processor has none.
const Bfloat16Tile* arm_bfloat16_tile();
const Bfloat16Tile* x86_bfloat16_tile();  // vectors
const Bfloat16Tile* x86_matrix_tile();    // tile registers (AMX)

}  // namespace geores::kernels
