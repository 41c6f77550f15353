// Packing for Bfloat16Tile in plain C++. Everything here is internal to the file that includes it;
// bfloat16_tile.h says why.
#pragma once

#include "geores/kernels/cpu/bfloat16_tile.h"

namespace geores::kernels {
namespace {

// Rounds to nearest, ties to even; NaN stays NaN.
inline uint16_t bfloat16_bits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

inline float value_at(const Lines& lines, int64_t l, int64_t k) {
  if (l >= lines.count || k >= lines.depth) return 0;
  return lines.by_depth ? lines.values[k * lines.stride + l] : lines.values[l * lines.stride + k];
}

// Packs one group of one panel: Size lines starting at `line`, Group depths starting at `k`.
template <int Size, int Group, class Packed, class Round>
void pack_group(const Lines& lines, int64_t line, int64_t k, Packed* to, Round&& rounded) {
  for (int l = 0; l < Size; ++l)
    for (int i = 0; i < Group; ++i) to[l * Group + i] = rounded(value_at(lines, line + l, k + i));
}

template <int Size, int Group, class Packed, class Round>
void pack_panels(const Lines& lines, Packed* to, Round&& rounded) {
  for (int64_t line = 0; line < lines.count; line += Size)
    for (int64_t k = 0; k < lines.depth; k += Group, to += Size * Group)
      pack_group<Size, Group>(lines, line, k, to, rounded);
}

}  // namespace
}  // namespace geores::kernels
