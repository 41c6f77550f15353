// A block keeps 128 columns of the weights in shared memory and goes through blocks of rows,
// copying the next ones while it multiplies the current ones. So each block reads the weights from
// the second-level cache once, not once for every block of rows. A warpgroup multiplies 64 rows.
//
// The columns of the weights are permuted on their way to shared memory (`dealt`), so that the
// results of a lane are contiguous in memory. For 32 columns, lane 4g + t gets results 2t
// and 2t + 1 of each of four products of 8 columns: product columns 8j + 2t + e. They are
// result columns 8t + 2j + e, eight neighbours, which the lane stores as 16 bytes without any
// exchange.
#include "geores/kernels/dense/gelu_products.h"

#include "geores/kernels/cuda/copies.cuh"
#include "geores/kernels/cuda/gelu.cuh"
#include "geores/kernels/cuda/matrix.cuh"
#include "geores/kernels/cuda/warpgroup.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kBlocks = 2;  // on a multiprocessor: one computes GELU while the other multiplies
constexpr int kDepth = 128, kColumns = 128, kRows = 128;
constexpr int kBlockThreads = kRows / 64 * 128;
constexpr int kPieces = kDepth / 8;        // 16-byte pieces of a row
constexpr int kWeightHalf = 128 * kLine;   // bytes: 64 of the 128 values of each row
constexpr int kInputHalf = kRows * kLine;  // the same
constexpr int kAlignment = 1024;           // wgmma requires it
constexpr size_t kShared = 2 * kWeightHalf + 2 * 2 * kInputHalf + kAlignment;

struct Operands {
  const BFloat16 *x, *w;
  BFloat16* hidden;           // read by the backward pass
  BFloat16* out;              // GELU(hidden) or dhidden
  int rows, columns, groups;  // groups of columns
};

__device__ inline float low(uint32_t both) { return __uint_as_float(both << 16); }
__device__ inline float high(uint32_t both) { return __uint_as_float(both & 0xffff0000u); }

// The column of the product that becomes column `i` of the result.
__device__ inline int dealt(int i) { return i / 32 * 32 + i % 8 / 2 * 8 + i % 32 / 8 * 2 + i % 2; }

// Packs eight neighbours of a row; f(i) is pair i of them.
template <class F>
__device__ inline uint4 eight(F&& f) {
  return make_uint4(f(0), f(1), f(2), f(3));
}
__device__ inline uint32_t part(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// A lane's operation on eight neighbours of the product: value(i, 0) and value(i, 1) are pair i.
template <bool Backward, class F>
__device__ inline void finish(const Operands& o, int64_t at, const uint4& before, F&& value) {
  if constexpr (Backward) {
    *reinterpret_cast<uint4*>(o.out + at) = eight([&](int i) {
      const uint32_t h = part(before, i);
      return pack(value(i, 0) * PolynomialGelu::slope(low(h)),
                  value(i, 1) * PolynomialGelu::slope(high(h)));
    });
  } else {
    const uint4 h = eight([&](int i) { return pack(value(i, 0), value(i, 1)); });
    *reinterpret_cast<uint4*>(o.hidden + at) = h;
    *reinterpret_cast<uint4*>(o.out + at) = eight([&](int i) {
      return pack(PolynomialGelu::value(low(part(h, i))), PolynomialGelu::value(high(part(h, i))));
    });
  }
}

// Starts to copy w (columns, depth). Its lines run along the sum, so columns are permuted as whole
// lines.
__device__ inline void fetch_weights(uint32_t to, const BFloat16* from) {
  for (int i = threadIdx.x; i < kColumns * kPieces; i += kBlockThreads) {
    const int row = i / kPieces, piece = i % kPieces;
    copy_or_clear(to + piece / 8 * kWeightHalf + swizzled(dealt(row), piece % 8),
                  from + static_cast<int64_t>(row) * kDepth + piece * 8, true);
  }
}

__device__ inline void store_shared(uint32_t to, const uint4& v) {
#ifdef GEORES_EMULATED
  std::memcpy(emulated::Block::current->at(to), &v, sizeof(v));
#else
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
#endif
}

// Loads w (depth, columns). Its lines run along the columns, so columns are permuted within a line:
// of 32 columns, each 16-byte piece takes one pair from each of four pieces.
__device__ inline void load_weights(uint32_t to, const BFloat16* from, int columns) {
  for (int i = threadIdx.x; i < kDepth * 4; i += kBlockThreads) {
    const int row = i / 4, quarter = i % 4;
    const auto* at = from + static_cast<int64_t>(row) * columns + quarter * 32;
    uint4 pieces[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) pieces[t] = *reinterpret_cast<const uint4*>(at + 8 * t);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      store_shared(to + quarter / 2 * kWeightHalf + swizzled(row, quarter % 2 * 4 + j),
                   eight([&](int t) { return part(pieces[t], j); }));
  }
}

// Starts to copy rows starting at `first`, with zeros from `end` on.
__device__ inline void fetch_rows(uint32_t to, const BFloat16* from, int first, int end) {
#pragma unroll
  for (int i = 0; i < kRows * kPieces; i += kBlockThreads) {
    const int row = (i + threadIdx.x) / kPieces, piece = threadIdx.x % kPieces;
    copy_or_clear(to + piece / 8 * kInputHalf + swizzled(row, piece % 8),
                  from + static_cast<int64_t>(min(first + row, end - 1)) * kDepth + piece * 8,
                  first + row < end);
  }
}

// Starts to multiply this warpgroup's 64 rows of `input` with the weights.
template <bool Backward>
__device__ inline void multiply(uint32_t input, uint32_t weights, float (&c)[64]) {
  begin_products();
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    const auto a =
        describe(input + k / 4 * kInputHalf + threadIdx.x / 128 * 64 * kLine + k % 4 * 32, 16);
    const auto b = Backward ? describe(weights + k * 16 * kLine, kWeightHalf)
                            : describe(weights + k / 4 * kWeightHalf + k % 4 * 32, 16);
    warpgroup_multiply_add<Backward>(c, a, b);
  }
  end_products();
}

template <bool Backward>
__global__ void __launch_bounds__(kBlockThreads, kBlocks) multiply_rows(const Operands o) {
  wait_for_previous();
  if constexpr (!kHasWarpgroups) {  // never launched: see has_gelu_products
    __trap();
    return;
  }
  GEORES_SHARED_BYTES(unaligned);
  const uint32_t weights = (shared_address(unaligned) + kAlignment - 1) & ~(kAlignment - 1u),
                 inputs = weights + 2 * kWeightHalf;
  const int first_column = static_cast<int>(blockIdx.x) % o.groups * kColumns;
  const int step = static_cast<int>(gridDim.x) / o.groups;
  const int tiles = (o.rows + kRows - 1) / kRows;
  int tile = static_cast<int>(blockIdx.x) / o.groups;

  if constexpr (!Backward)
    fetch_weights(weights, o.w + static_cast<int64_t>(first_column) * kDepth);
  const auto fetch = [&](int which, uint32_t to) {
    if (which < tiles) fetch_rows(to, o.x, which * kRows, o.rows);
    end_copies();  // even without copies: wait_for_copy_groups counts groups
  };
  fetch(tile, inputs);
  fetch(tile + step, inputs + 2 * kInputHalf);
  if constexpr (Backward) load_weights(weights, o.w + first_column, o.columns);

  const FragmentLane fragment;
  const auto offset = [&](int row) {
    return static_cast<int64_t>(row) * o.columns + first_column + 8 * fragment.t;
  };
  int stage = 0;
#pragma unroll 1
  for (; tile < tiles; tile += step, stage ^= 1) {
    const int first = tile * kRows + static_cast<int>(threadIdx.x) / 32 * 16 + fragment.g;
    wait_for_copy_groups<1>();
    show_to_products();
    __syncthreads();
    const uint32_t input = inputs + stage * 2 * kInputHalf;
    float c[64] = {};
    multiply<Backward>(input, weights, c);
    uint4 before[2][4];  // `hidden` of a row, 32 columns each; loaded while the products run
    if constexpr (Backward) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          const int row = first + half * 8;
          before[half][q] = make_uint4(0, 0, 0, 0);
          if (row < o.rows)
            before[half][q] = *reinterpret_cast<const uint4*>(o.hidden + offset(row) + q * 32);
        }
    }
    wait_for_products<0>();
    __syncthreads();  // all warpgroups have read `input`
    fetch(tile + 2 * step, input);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + half * 8;
      if (row < o.rows)
#pragma unroll
        for (int q = 0; q < 4; ++q)
          finish<Backward>(o, offset(row) + q * 32, before[half][q],
                           [&](int i, int which) { return c[16 * q + 4 * i + 2 * half + which]; });
    }
  }
}

template <bool Backward>
void run(CudaStream stream, Operands o, const GeluProductShape& shape) {
  constexpr auto* name = Backward ? "product_and_gelu_slope" : "product_and_gelu";
  if (!has_gelu_products(shape.depth, shape.columns))
    throw std::invalid_argument(std::string(name) + ": not for this shape or this GPU");
  if (shape.rows == 0 || shape.columns == 0) return;
  o.rows = static_cast<int>(shape.rows);
  o.columns = static_cast<int>(shape.columns);
  o.groups = o.columns / kColumns;
  const int tiles = (o.rows + kRows - 1) / kRows;
  const int at_once = std::max(1, multiprocessors() * kBlocks / o.groups);
  const auto blocks = static_cast<int64_t>(std::min(tiles, at_once)) * o.groups;
  launch(stream, {blocks, kBlockThreads, kShared}, multiply_rows<Backward>, o);
  check_launch(name);
}

}  // namespace

bool has_gelu_products(int64_t depth, int64_t columns) {
  return has_warpgroups() && depth == kDepth && columns % kColumns == 0;
}

void product_and_gelu(CudaStream stream, const BFloat16* x, const BFloat16* w, BFloat16* hidden,
                      BFloat16* active, const GeluProductShape& shape) {
  run<false>(stream, {.x = x, .w = w, .hidden = hidden, .out = active}, shape);
}

void product_and_gelu_slope(CudaStream stream, const BFloat16* dy, const BFloat16* w,
                            const BFloat16* hidden, BFloat16* dhidden,
                            const GeluProductShape& shape) {
  run<true>(stream, {.x = dy, .w = w, .hidden = const_cast<BFloat16*>(hidden), .out = dhidden},
            shape);
}

}  // namespace geores::kernels
