// This file is compiled for x86_64 processors with AVX512-BF16 and AMX. The program calls it only
// where it finds such a processor.
#include "geores/kernels/cpu/bfloat16_tile.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace geores::kernels {
namespace {

// Both instructions take two depths at a time. Packing works on blocks of 16 lines and 16 pairs of
// depths: 16 vectors of 16 pairs, one for each line or one for each pair of depths.
constexpr int kLines = 16, kPairs = 16, kDepths = 2 * kPairs;

__mmask16 first(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

// The lower half of the result is `low`, rounded to nearest, ties to even.
__m512i rounded(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

// row[l] = the pairs of line l; lines and depths beyond the end are zero.
void load_lines(const Lines& from, int64_t line, int64_t k, int64_t lines, __m512i* row) {
  const auto low = first(from.depth - k), high = first(from.depth - k - 16);
  for (int l = 0; l < kLines; ++l) {
    if (l >= lines) {
      row[l] = _mm512_setzero_si512();
      continue;
    }
    const float* values = from.values + (line + l) * from.stride + k;
    row[l] = rounded(_mm512_maskz_loadu_ps(low, values), _mm512_maskz_loadu_ps(high, values + 16));
  }
}

// row[p] = pair p of every line.
void load_depths(const Lines& from, int64_t line, int64_t k, int64_t lines, __m512i* row) {
  const auto mask = first(lines);
  const auto values = [&](int64_t depth) {
    if (depth >= from.depth) return _mm512_setzero_ps();
    return _mm512_maskz_loadu_ps(mask, from.values + depth * from.stride + line);
  };
  alignas(64) uint16_t order[2 * kLines];
  for (int l = 0; l < kLines; ++l) {
    order[2 * l] = static_cast<uint16_t>(l);
    order[2 * l + 1] = static_cast<uint16_t>(kLines + l);
  }
  const auto neighbours = _mm512_load_si512(order);
  for (int p = 0; p < kPairs; ++p)
    row[p] =
        _mm512_permutexvar_epi16(neighbours, rounded(values(k + 2 * p), values(k + 2 * p + 1)));
}

// Exchanges lines and pairs. After two steps of exchanges within 128 bits, b[4i + j] holds column
// 4q + j of rows 4i … 4i + 3 in its quarter q; two steps of exchanges of quarters do the rest.
void transpose(__m512i* row) {
  __m512i a[16], b[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    a[2 * i] = _mm512_unpacklo_epi32(row[2 * i], row[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_epi32(row[2 * i], row[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const auto even_top = _mm512_shuffle_i32x4(b[j], b[4 + j], 0x88),
               odd_top = _mm512_shuffle_i32x4(b[j], b[4 + j], 0xdd),
               even_bottom = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0x88),
               odd_bottom = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0xdd);
    row[j] = _mm512_shuffle_i32x4(even_top, even_bottom, 0x88);
    row[8 + j] = _mm512_shuffle_i32x4(even_top, even_bottom, 0xdd);
    row[4 + j] = _mm512_shuffle_i32x4(odd_top, odd_bottom, 0x88);
    row[12 + j] = _mm512_shuffle_i32x4(odd_top, odd_bottom, 0xdd);
  }
}

enum class Vectors { of_lines, of_pairs };

// f(first line of the panel, first line of the block in it, depth, vectors) for all blocks of all
// panels of `Size` lines.
template <int Size, Vectors Wanted, class F>
void for_each_block(const Lines& from, F&& f) {
  constexpr int64_t lines_at_once = Size < kLines ? Size : kLines;
  for (int64_t panel = 0; panel < from.count; panel += Size)
    for (int64_t part = 0; part < Size; part += lines_at_once)
      for (int64_t k = 0; k < from.depth; k += kDepths) {
        const auto line = panel + part, left = from.count - line;
        const auto lines = left < lines_at_once ? left : lines_at_once;
        __m512i row[16];
        from.by_depth ? load_depths(from, line, k, lines, row)
                      : load_lines(from, line, k, lines, row);
        if (from.by_depth != (Wanted == Vectors::of_pairs)) transpose(row);
        f(panel, part, k, row);
      }
}

// A panel holds pair after pair of depths, of all its lines each.
template <int Size, int Group>
void pack_pairs(const Lines& from, void* panels) {
  const auto pairs = (from.depth + Group - 1) / Group * Group / 2;
  for_each_block<Size, Vectors::of_pairs>(
      from, [&](int64_t panel, int64_t part, int64_t k, const __m512i* row) {
        auto* to = static_cast<uint32_t*>(panels) + panel * pairs + k / 2 * Size + part;
        const auto here = pairs - k / 2 < kPairs ? pairs - k / 2 : kPairs;
        for (int64_t p = 0; p < here; ++p)
          _mm512_mask_storeu_epi32(to + p * Size, first(Size), row[p]);
      });
}

// A panel holds groups of 32 depths, line after line each.
void pack_lines(const Lines& from, void* panels) {
  const auto groups = (from.depth + kDepths - 1) / kDepths;
  for_each_block<kLines, Vectors::of_lines>(from, [&](int64_t panel, int64_t, int64_t k,
                                                      const __m512i* row) {
    auto* to = static_cast<uint32_t*>(panels) + (panel * groups + k / kDepths * kLines) * kPairs;
    for (int l = 0; l < kLines; ++l) _mm512_storeu_si512(to + l * kPairs, row[l]);
  });
}

// VDPBF16PS adds pairs of products to 16 sums. A tile of 8 rows and 32 columns takes 16 of the 32
// registers for its sums.
constexpr int kRows = 8, kVectors = 2, kColumns = 16 * kVectors;

template <bool Add>
void multiply_vectors(const uint32_t* left, const uint32_t* right, int64_t depth, float* c,
                      int64_t ldc) {
  __m512 sum[kRows][kVectors] = {};
  for (int64_t k = 0; k < depth; k += 2, left += kRows, right += kColumns) {
    __m512bh b[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j)
      b[j] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(right + 16 * j));
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const auto a = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(left[i])));
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
  const auto *a = static_cast<const uint32_t*>(left), *b = static_cast<const uint32_t*>(right);
  add ? multiply_vectors<true>(a, b, depth, c, ldc) : multiply_vectors<false>(a, b, depth, c, ldc);
}

constexpr Bfloat16Tile kVectorTile{.instruction = "VDPBF16PS",
                                   .rows = kRows,
                                   .columns = kColumns,
                                   .group = 2,
                                   .value_bytes = sizeof(uint16_t),
                                   .pack_left = pack_pairs<kRows, 2>,
                                   .pack_right = pack_pairs<kColumns, 2>,
                                   .multiply = multiply,
                                   .begin = nullptr,
                                   .end = nullptr};
static_assert(kVectorTile.rows * kVectorTile.columns <= kLargestBfloat16Tile);

// TDPBF16PS multiplies 16 rows of 32 depths with 32 depths of 16 columns, all in tile registers,
// whose sizes a thread sets first. Registers 0 and 1 hold the sums, 2 the rows, 3 and 4 the columns.
struct alignas(64) TileSizes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16};
};
constexpr TileSizes kTileSizes;
static_assert(sizeof kTileSizes == 64);

void begin_tiles() { _tile_loadconfig(&kTileSizes); }
void end_tiles() { _tile_release(); }

void multiply_tiles(const void* left, const void* right, int64_t depth, bool add, float* c,
                    int64_t ldc) {
  const auto *a = static_cast<const uint32_t*>(left), *b = static_cast<const uint32_t*>(right);
  const auto c_bytes = ldc * static_cast<int64_t>(sizeof(float));
  if (add) {
    _tile_loadd(0, c, c_bytes);
    _tile_loadd(1, c + 16, c_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  for (int64_t k = 0; k < depth; k += kDepths, a += kLines * kPairs, b += kPairs * kColumns) {
    _tile_loadd(2, a, kPairs * sizeof(uint32_t));
    _tile_loadd(3, b, kColumns * sizeof(uint32_t));
    _tile_dpbf16ps(0, 2, 3);
    _tile_loadd(4, b + 16, kColumns * sizeof(uint32_t));
    _tile_dpbf16ps(1, 2, 4);
  }
  _tile_stored(0, c, c_bytes);
  _tile_stored(1, c + 16, c_bytes);
}

constexpr Bfloat16Tile kMatrixTile{.instruction = "TDPBF16PS",
                                   .rows = kLines,
                                   .columns = kColumns,
                                   .group = kDepths,
                                   .value_bytes = sizeof(uint16_t),
                                   .pack_left = pack_lines,
                                   .pack_right = pack_pairs<kColumns, kDepths>,
                                   .multiply = multiply_tiles,
                                   .begin = begin_tiles,
                                   .end = end_tiles};
static_assert(kMatrixTile.rows * kMatrixTile.columns <= kLargestBfloat16Tile);

// The processor has tile registers with bfloat16, and the kernel lets this process use them (Linux
// 5.16 or later: a process must ask, because they are 8 kB more to save for each thread).
bool may_use_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;
  if ((d & amx_bf16) == 0 || (d & amx_tile) == 0) return false;
#if defined(__linux__)
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

}  // namespace

const Bfloat16Tile* x86_bfloat16_tile() {
  return __builtin_cpu_supports("avx512bf16") ? &kVectorTile : nullptr;
}

const Bfloat16Tile* x86_matrix_tile() {
  static const bool usable = x86_bfloat16_tile() && may_use_tiles();
  return usable ? &kMatrixTile : nullptr;
}

}  // namespace geores::kernels
#endif
