#include "geores/kernels/cpu/bfloat16_tile.h"

#include <atomic>
#include <bit>

#include "geores/kernels/cpu/bfloat16_pack.h"
#include "geores/kernels/cpu/tile.h"

namespace geores::kernels {
namespace {

float rounded(float x) { return std::bit_cast<float>(uint32_t{bfloat16_bits(x)} << 16); }

template <int Size>
void pack(const Lines& lines, void* panels) {
  pack_panels<Size, 1>(lines, static_cast<float*>(panels), rounded);
}

void multiply(const void* left, const void* right, int64_t depth, bool add, float* c, int64_t ldc) {
  const LeftColumns<float> a{static_cast<const float*>(left), kTileRows};
  const auto* b = static_cast<const float*>(right);
  constexpr int columns = kTileColumns<float>;
  if (add)
    detail::multiply_tile<kTileRows, true>(a, b, columns, c, ldc, depth);
  else
    detail::multiply_tile<kTileRows, false>(a, b, columns, c, ldc, depth);
}

constexpr Bfloat16Tile kPortable{.instruction = nullptr,
                                 .rows = kTileRows,
                                 .columns = kTileColumns<float>,
                                 .group = 1,
                                 .value_bytes = sizeof(float),
                                 .pack_left = pack<kTileRows>,
                                 .pack_right = pack<kTileColumns<float>>,
                                 .multiply = multiply,
                                 .begin = nullptr,
                                 .end = nullptr};
static_assert(kPortable.rows * kPortable.columns <= kLargestBfloat16Tile);

struct Tiles {
  const Bfloat16Tile* all[4] = {};

  Tiles() {
    auto next = all;
    const auto add = [&](const Bfloat16Tile* tile) {
      if (tile) *next++ = tile;
    };
#if defined(__aarch64__) && defined(__linux__)
    add(arm_bfloat16_tile());
#elif defined(__x86_64__)
    add(x86_bfloat16_tile());
    add(x86_matrix_tile());  // not the first: it has not been timed yet
#endif
    add(&kPortable);
  }
};

std::atomic<const Bfloat16Tile*>& current() {
  static std::atomic<const Bfloat16Tile*> tile = bfloat16_tiles()[0];
  return tile;
}

}  // namespace

const Bfloat16Tile& bfloat16_tile() { return *current(); }

const Bfloat16Tile* const* bfloat16_tiles() {
  static const Tiles tiles;
  return tiles.all;
}

void use_bfloat16_tile(const Bfloat16Tile& tile) { current() = &tile; }

}  // namespace geores::kernels
