// The projections of wide_projection.cu for rows of bfloat16 whose width is a multiple of 8. Rows go into
// matrix instructions as they are (cuda/matrix.cuh); weights and factors are two bfloat16 numbers each,
// which keep 16 bits of a float. Against tf32 factors, as float rows have them (wide_matrices.cuh), that is
// half of the instructions, and nothing is split again where it is used.
//
// As there, lanes own neighbours: the order of inner values is free if both factors have the same.
#pragma once

#include "geores/kernels/routed/wide_matrices.cuh"

namespace geores::kernels::device {

// x = high + low up to 2⁻¹⁶ of x.
struct HalfParts {
  float high, low;

  __device__ explicit HalfParts(float x) : high(number(As<BFloat16>::from(x))), low(x - high) {}
};

// Two neighbours, the first in the low half of a word.
struct HalfPair {
  uint32_t high, low;

  __device__ HalfPair(float first, float second) {
    const HalfParts a(first), b(second);
    high = pack(a.high, b.high);
    low = pack(a.low, b.low);
  }
};

// Forward. In shared memory the weights of a projection are runs of 32 columns: their high parts, then
// their low parts.
inline constexpr int kRunWords = 32;

template <int Tiles>
__global__ void __launch_bounds__(kMatrixBlock, 2)
    project_half_by_matrices(Project<float, BFloat16> p) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  auto* weights = reinterpret_cast<uint32_t*>(memory);  // (8 Tiles, slice), 0 beyond row and count
  const int stride = matrix_stride(p.slice);
  const ProjectBlock<Tiles> block(p);
  block.for_each_four_weights(p, [&](int r, int column, const float(&values)[4]) {
    const HalfPair front(values[0], values[1]), back(values[2], values[3]);
    uint32_t* to = weights + r * stride + column / 32 * kRunWords + column % 32 / 2;
    to[0] = front.high, to[1] = back.high;
    to[kRunWords / 2] = front.low, to[kRunWords / 2 + 1] = back.low;
  });
  __syncthreads();

  const FragmentLane fragment;
  block.for_each_rows(p, [&](int64_t row) {
    const BFloat16* from[2];  // rows beyond the last repeat it; their sums are not stored
#pragma unroll
    for (int half = 0; half < 2; ++half)
      from[half] = p.x + min(row + fragment.g + 8 * half, p.rows - 1) * p.width + block.first;
    Result sums[Tiles];
    float squares[2] = {};
    using Columns = LoadedAhead<8, BFloat16>;
    Columns ahead[2][2];  // steps that are on their way, rows
    const auto load = [&](Columns(&to)[2], int begin) {
      const int column = begin + 8 * fragment.t;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (column < block.columns)
          to[half].load(from[half] + column);
        else
          to[half] = {};
      }
    };
    const auto multiply = [&](const Columns(&x)[2], int begin) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 8; ++i) squares[half] += x[half][i] * x[half][i];
      const uint32_t* w = weights + fragment.g * stride + begin / 32 * kRunWords + 4 * fragment.t;
#pragma unroll
      for (int n = 0; n < Tiles; ++n) {
        const uint32_t* at = w + 8 * n * stride;
        const auto high = *reinterpret_cast<const uint4*>(at),
                   low = *reinterpret_cast<const uint4*>(at + kRunWords / 2);
        const Left front{{x[0].at[0], x[1].at[0], x[0].at[1], x[1].at[1]}},
            back{{x[0].at[2], x[1].at[2], x[0].at[3], x[1].at[3]}};
        multiply_add(sums[n], front, low.x, low.y);
        multiply_add(sums[n], back, low.z, low.w);
        multiply_add(sums[n], front, high.x, high.y);
        multiply_add(sums[n], back, high.z, high.w);
      }
    };
    load(ahead[0], 0);
    load(ahead[1], kMatrixStep);
    for (int column = 0; column < block.columns; column += 2 * kMatrixStep) {
      multiply(ahead[0], column);
      load(ahead[0], column + 2 * kMatrixStep);
      multiply(ahead[1], column + kMatrixStep);
      load(ahead[1], column + 3 * kMatrixStep);
    }
    block.store(p, sums, squares, row, fragment);
  });
}

// Backward. A lane has four neighbouring columns of four neighbouring rows at a time, of 16 rows and 32
// columns that a warp has.
template <int Tiles>
struct StagedHalfFactors {
  static constexpr int kSixteens = kChunk<Tiles> / 16, kSteps = (Tiles + 1) / 2;
  // Of two pairs of values the high parts, then the low parts.
  uint4 across[kSixteens][2][kSteps][32];  // inner: projections; outer: rows 4t + 2j + i of half j
  uint4 down[kSixteens][Tiles][32];        // inner: rows 4t ... 4t + 3; outer: projections
  float along[kChunk<Tiles>];              // k

  __device__ void clear() {  // projections that fill up the last step
    if constexpr (Tiles % 2 == 1)
      for (int i = threadIdx.x; i < kSixteens * 2 * 32; i += blockDim.x)
        across[i / 64][i / 32 % 2][kSteps - 1][i % 32] = {};
  }

  __device__ void put(int row, int r, float g) {
    const int sixteen = row / 16, i = row % 16;
    const HalfParts parts(g);
    const auto high = As<BFloat16>::from(parts.high), low = As<BFloat16>::from(parts.low);
    const auto store = [&](uint4& four, int pair, int which) {
      auto* numbers = reinterpret_cast<BFloat16*>(&four);
      numbers[2 * pair + which] = high;
      numbers[4 + 2 * pair + which] = low;
    };
    const int inner = r % 16;
    store(across[sixteen][i / 2 % 2][r / 16][4 * (2 * (i / 4) + i % 2) + inner % 8 / 2], inner / 8,
          inner % 2);
    store(down[sixteen][r / 8][4 * (r % 8) + i / 4], i / 2 % 2, i % 2);
  }
};

// The weights of a lane's four columns as left operands: in registers or, where there are too many of
// them, in shared memory.
template <int Tiles, int Block, bool InRegisters>
struct HeldHalfWeights;

template <int Tiles, int Block>
struct HeldHalfWeights<Tiles, Block, true> {
  static constexpr int kSteps = (Tiles + 1) / 2, kShared = 1;
  Left high[kSteps][2], low[kSteps][2];

  template <class Load>
  __device__ HeldHalfWeights(uint4*, Load&& load) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const HalfPair pair = load(s, i / 2, 2 * m + i % 2);
          high[s][m].at[i] = pair.high;
          low[s][m].at[i] = pair.low;
        }
  }
  __device__ void begin_round() const {}
  __device__ const Left& high_of(int s, int m) const { return high[s][m]; }
  __device__ const Left& low_of(int s, int m) const { return low[s][m]; }
};

template <int Tiles, int Block>
struct HeldHalfWeights<Tiles, Block, false> {
  static constexpr int kSteps = (Tiles + 1) / 2, kShared = kSteps * 2 * 2 * Block;
  uint4* mine;  // (kSteps, 2, high and low, threads)

  template <class Load>
  __device__ HeldHalfWeights(uint4* shared, Load&& load) : mine(shared + threadIdx.x) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        uint32_t high[4], low[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const HalfPair pair = load(s, i / 2, 2 * m + i % 2);
          high[i] = pair.high;
          low[i] = pair.low;
        }
        mine[(2 * s + m) * 2 * Block] = {high[0], high[1], high[2], high[3]};
        mine[((2 * s + m) * 2 + 1) * Block] = {low[0], low[1], low[2], low[3]};
      }
  }
  __device__ void begin_round() const {  // or the compiler would load all of them before the first
#ifndef GEORES_EMULATED
    asm volatile("" ::: "memory");
#endif
  }
  __device__ Left at(int i) const {
    const auto four = mine[i * Block];
    return {{four.x, four.y, four.z, four.w}};
  }
  __device__ Left high_of(int s, int m) const { return at((2 * s + m) * 2); }
  __device__ Left low_of(int s, int m) const { return at((2 * s + m) * 2 + 1); }
};

// More at once would leave too few registers.
template <int Tiles>
inline constexpr int kHalfBackBlocksAtOnce = Tiles <= 3 ? 2 : 3;

template <int Tiles>
__global__ void __launch_bounds__(kBackBlock<Tiles>, kHalfBackBlocksAtOnce<Tiles>)
    project_half_back_by_matrices(ProjectBack<float, BFloat16> p) {
  wait_for_previous();
  constexpr int held = 8 * Tiles, block = kBackBlock<Tiles>, chunk = kChunk<Tiles>;
  using Factors = StagedHalfFactors<Tiles>;
  constexpr int sixteens = Factors::kSixteens, steps = Factors::kSteps;
  __shared__ __align__(16) Factors staged[2];
  const FragmentLane fragment;
  const int lane = static_cast<int>(threadIdx.x) % 32,
            column = static_cast<int>(blockIdx.x) % p.columns * block +
                     static_cast<int>(threadIdx.x) / 32 * 32 + 4 * fragment.g,
            group = static_cast<int>(blockIdx.x) / p.columns,
            groups = static_cast<int>(gridDim.x) / p.columns;
  const bool there = column < p.width;
  const int here = min(held, p.count - p.first);
  const auto weight = [&](int r, int c) {
    return there && r < here ? p.w[static_cast<int64_t>(p.first + r) * p.width + column + c] : 0.f;
  };
  using Weights = HeldHalfWeights<Tiles, block, Tiles <= 2>;
  __shared__ __align__(16) uint4 held_weights[Weights::kShared];
  const Weights weights(held_weights, [&](int s, int eight, int c) {
    const int r = 16 * s + 8 * eight + 2 * fragment.t;
    return HalfPair(weight(r, c), weight(r + 1, c));
  });
  Result dweight[Tiles][2];

  FactorsAhead<Tiles> ahead;
  // Four rows of the lane's columns; 0 where there are none.
  using Columns = LoadedAhead<4, BFloat16>;
  const auto load = [&](const BFloat16* from, int64_t row, Columns(&to)[4]) {
    const BFloat16* at = from + row * p.width + column;
#pragma unroll
    for (int i = 0; i < 4; ++i, at += p.width) {
      if (there && row + i < p.rows)
        to[i].load(at);
      else
        to[i] = {};
    }
  };

  const auto step = static_cast<int64_t>(groups) * chunk;
  auto begin = static_cast<int64_t>(group) * chunk;
  int buffer = 0;
  Columns next[4];
  staged[0].clear();
  staged[1].clear();
  __syncthreads();
  ahead.load(p, begin, here);
  ahead.store(staged[0]);
  load(p.x, begin + 4 * fragment.t, next);
  __syncthreads();
  for (; begin < p.rows; begin += step, buffer = 1 - buffer) {
    const auto& factors = staged[buffer];
    ahead.load(p, begin + step, here);  // on its way while the products are made
#pragma unroll 1
    for (int sixteen = 0; sixteen < sixteens; ++sixteen) {
      const auto row = begin + 16 * sixteen + 4 * fragment.t;
      const auto next_row = sixteen + 1 < sixteens ? row + 16 : begin + step + 4 * fragment.t;
      Columns x[4], skip[4] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = next[i];
      load(p.x, next_row, next);

#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const auto firsts = [&](int i) {  // of two rows, the first column of pair m
          return (x[i].at[m] & 0xffffu) | x[i + 1].at[m] << 16;
        };
        const auto seconds = [&](int i) { return x[i].at[m] >> 16 | (x[i + 1].at[m] & 0xffff0000u); };
        const Left left{{firsts(0), seconds(0), firsts(2), seconds(2)}};
#pragma unroll
        for (int n = 0; n < Tiles; ++n) {
          const auto four = factors.down[sixteen][n][lane];
          multiply_add(dweight[n][m], left, four.z, four.w);
          multiply_add(dweight[n][m], left, four.x, four.y);
        }
      }
      if (p.skip) load(p.skip, row, skip);
      const auto along = *reinterpret_cast<const float4*>(&factors.along[16 * sixteen + 4 * fragment.t]);
      const float k[4] = {along.x, along.y, along.z, along.w};
      Result sums[2][2];  // rows 4t + 2j and the next, columns 2m and the next
      weights.begin_round();
#pragma unroll
      for (int s = 0; s < steps; ++s)
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          const Left high = weights.high_of(s, m), low = weights.low_of(s, m);
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            const auto four = factors.across[sixteen][j][s][lane];
            multiply_add(sums[j][m], low, four.x, four.y);
            multiply_add(sums[j][m], high, four.z, four.w);
            multiply_add(sums[j][m], high, four.x, four.y);
          }
        }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (!there || row + i >= p.rows) continue;
        float out[4];
#pragma unroll
        for (int c = 0; c < 4; ++c)
          out[c] = sums[i / 2][c / 2].at[c % 2 * 2 + i % 2] + (skip[i][c] + k[i] * x[i][c]);
        store_values<4>(p.dx + (row + i) * p.width + column, out);
      }
    }
    ahead.store(staged[1 - buffer]);
    __syncthreads();
  }
  if (there) add_weight_gradients<Tiles>(p, dweight, column, here, fragment);
}

}  // namespace geores::kernels::device
