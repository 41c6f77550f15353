// This file is compiled for x86_64 processors with AVX512-BF16. The program calls it only where it
// finds such a processor.
#include "geores/kernels/cpu/bfloat16_tile.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "geores/kernels/cpu/bfloat16_pack.h"

namespace geores::kernels {
namespace {

// VDPBF16PS adds pairs of products to 16 sums. A tile of 8 rows and 32 columns takes 16 of the 32
// registers for its sums.
constexpr int kRows = 8, kVectors = 2, kColumns = 16 * kVectors, kGroup = 2;

template <int Size>
void pack(const Lines& lines, void* panels) {
  pack_panels<Size, kGroup>(lines, static_cast<uint16_t*>(panels), bfloat16_bits);
}

template <bool Add>
void multiply_tile(const uint16_t* left, const uint16_t* right, int64_t depth, float* c,
                   int64_t ldc) {
  __m512 sum[kRows][kVectors] = {};
  for (int64_t k = 0; k < depth; k += kGroup, left += kRows * kGroup, right += kColumns * kGroup) {
    __m512bh b[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j)
      b[j] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(right + 32 * j));
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      int pair;
      __builtin_memcpy(&pair, left + i * kGroup, sizeof pair);
      const auto a = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], a, b[j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      float* to = c + i * ldc + 16 * j;
      _mm512_storeu_ps(to, Add ? _mm512_add_ps(_mm512_loadu_ps(to), sum[i][j]) : sum[i][j]);
    }
}

void multiply(const void* left, const void* right, int64_t depth, bool add, float* c, int64_t ldc) {
  const auto *a = static_cast<const uint16_t*>(left), *b = static_cast<const uint16_t*>(right);
  add ? multiply_tile<true>(a, b, depth, c, ldc) : multiply_tile<false>(a, b, depth, c, ldc);
}

constexpr Bfloat16Tile kTile{.instruction = "VDPBF16PS",
                             .rows = kRows,
                             .columns = kColumns,
                             .group = kGroup,
                             .value_bytes = sizeof(uint16_t),
                             .pack_left = pack<kRows>,
                             .pack_right = pack<kColumns>,
                             .multiply = multiply};
static_assert(kTile.rows * kTile.columns <= kLargestBfloat16Tile);

}  // namespace

const Bfloat16Tile* x86_bfloat16_tile() {
  return __builtin_cpu_supports("avx512bf16") ? &kTile : nullptr;
}

}  // namespace geores::kernels
#endif
