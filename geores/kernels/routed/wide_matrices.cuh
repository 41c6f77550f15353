// The projections of wide_projection.cu for rows of float whose width is a multiple of 4, by matrix
// instructions with split factors (cuda/tf32.cuh). These kernels are as fast as memory, where products by
// single instructions took twice the time. Rows of bfloat16: wide_half_matrices.cuh.
//
// The matrix instruction may take inner values in any order if both factors use the same order, and
// results in any order. So lanes own neighbours, and read and write 16 bytes at a time.
#pragma once

#include "geores/kernels/cuda/tf32.cuh"

namespace geores::kernels::device {

inline constexpr int kMatrixWarps = 8, kMatrixBlock = 32 * kMatrixWarps;

// Forward. A block keeps the weights of 8 Tiles projections for a slice of the columns in shared
// memory; a warp has 16 rows.
inline constexpr int kMatrixRows = 16, kMatrixStep = 32;

// Lanes g and g + 1 read weights of the same columns at once, 64 neighbouring bytes each. Rows 16 banks
// apart do not collide.
__host__ __device__ constexpr int matrix_stride(int slice) { return slice + 16; }

template <class T, class S = T>
struct Project {
  const S* x;
  const T* w;
  T* partial;  // (slices, rows, count + 1): products, then the sum of squares
  int64_t rows;
  int width, count, slice, slices, tiles;  // tiles: of projections
};

// The share of a block: a slice of the columns, 8 Tiles projections, and every groups-th part of the rows.
template <int Tiles>
struct ProjectBlock {
  int slice, tile, group, groups;
  int first, columns;           // of the slice
  int first_projection, here;   // of the projections

  template <class S>
  __device__ explicit ProjectBlock(const Project<float, S>& p)
      : slice(static_cast<int>(blockIdx.x) % p.slices),
        tile(static_cast<int>(blockIdx.x) / p.slices % p.tiles),
        group(static_cast<int>(blockIdx.x) / (p.slices * p.tiles)),
        groups(static_cast<int>(gridDim.x) / (p.slices * p.tiles)),
        first(slice * p.slice),
        columns(min(p.slice, p.width - first)),
        first_projection(tile * 8 * Tiles),
        here(min(8 * Tiles, p.count - first_projection)) {}

  // f(projection, column, four weights), counted from the first ones; 0 beyond row and count.
  template <class S, class F>
  __device__ void for_each_four_weights(const Project<float, S>& p, F&& f) const {
    const int lane = threadIdx.x % 32;
    const bool aligned = reinterpret_cast<uintptr_t>(p.w) % 16 == 0;  // parameters may have any address
    for (int r = threadIdx.x / 32; r < 8 * Tiles; r += kMatrixWarps) {
      const float* from = p.w + static_cast<int64_t>(first_projection + r) * p.width + first;
#pragma unroll 6
      for (int column = 4 * lane; column < p.slice; column += 128) {
        float values[4] = {};
        if (r < here && column < columns) {
          if (aligned)
            load_values<4>(from + column, values);
          else
#pragma unroll
            for (int i = 0; i < 4; ++i) values[i] = from[column + i];
        }
        f(r, column, values);
      }
    }
  }

  // f(first of the warp's 16 rows).
  template <class S, class F>
  __device__ void for_each_rows(const Project<float, S>& p, F&& f) const {
    constexpr int64_t rows_of_block = kMatrixWarps * kMatrixRows;
    for (int64_t row = group * rows_of_block + threadIdx.x / 32 * kMatrixRows; row < p.rows;
         row += groups * rows_of_block)
      f(row);
  }

  // The sums of 16 rows, whose lanes hold those of two projections of rows g and g + 8 in each tile.
  template <class S>
  __device__ void store(const Project<float, S>& p, const Result (&sums)[Tiles],
                        const float (&squares)[2], int64_t row, const FragmentLane& fragment) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float square = quad_sum(squares[half]);
      const auto at = row + fragment.g + 8 * half;
      if (at >= p.rows) continue;
      float* to = p.partial + (slice * p.rows + at) * (p.count + 1);
#pragma unroll
      for (int n = 0; n < Tiles; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int r = 8 * n + 2 * fragment.t + i;
          if (r < here) to[first_projection + r] = sums[n].at[2 * half + i];
        }
      if (fragment.t == 0 && tile == 0) to[p.count] = square;
    }
  }
};

template <int Tiles>
__global__ void __launch_bounds__(kMatrixBlock, 2) project_by_matrices(Project<float> p) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  auto* weights = reinterpret_cast<float*>(memory);  // (8 Tiles, slice), 0 beyond row and count
  constexpr int each = 4, runs = 2;
  const int stride = matrix_stride(p.slice);
  const ProjectBlock<Tiles> block(p);
  block.for_each_four_weights(p, [&](int r, int column, const float(&values)[4]) {
    store_values<4>(weights + r * stride + column, values);
  });
  __syncthreads();

  const FragmentLane fragment;
  block.for_each_rows(p, [&](int64_t row) {
    const float* from[2];  // rows beyond the last repeat it; their sums are not stored
#pragma unroll
    for (int half = 0; half < 2; ++half)
      from[half] = p.x + min(row + fragment.g + 8 * half, p.rows - 1) * p.width + block.first;
    Result sums[Tiles];
    float squares[2] = {};
    struct Columns {
      float at[each];
    };
    Columns held_x[2][2][runs];  // steps that are on their way, rows, runs of neighbouring columns
    const auto load = [&](Columns(&to)[2][runs], int begin) {
#pragma unroll
      for (int run = 0; run < runs; ++run) {
        const int column = begin + each * (4 * run + fragment.t);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (column < block.columns)
            load_values<each>(from[half] + column, to[half][run].at);
          else
            to[half][run] = {};
        }
      }
    };
    const auto multiply = [&](const Columns(&held)[2][runs], int begin) {
      float x[2][8];
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) x[half][i] = held[half][i / each].at[i % each];
#pragma unroll
      for (int four = 0; four < 2; ++four) {
        const int run = 4 * four / each, within = 4 * four % each;
        const float* w = weights + fragment.g * stride + begin + each * (4 * run + fragment.t) + within;
        float right[Tiles][4];
#pragma unroll
        for (int n = 0; n < Tiles; ++n) load_values<4>(w + 8 * n * stride, right[n]);
#pragma unroll
        for (int i = 4 * four; i < 4 * four + 4; i += 2) {
          const SplitLeft left(x[0][i], x[1][i], x[0][i + 1], x[1][i + 1]);
#pragma unroll
          for (int half = 0; half < 2; ++half)
            squares[half] += x[half][i] * x[half][i] + x[half][i + 1] * x[half][i + 1];
#pragma unroll
          for (int n = 0; n < Tiles; ++n)
            multiply_add(sums[n], left, split_right(right[n][i % 4], right[n][i % 4 + 1]));
        }
      }
    };
    load(held_x[0], 0);
    load(held_x[1], kMatrixStep);
    for (int column = 0; column < block.columns; column += 2 * kMatrixStep) {
      multiply(held_x[0], column);
      load(held_x[0], column + 2 * kMatrixStep);
      multiply(held_x[1], column + kMatrixStep);
      load(held_x[1], column + 3 * kMatrixStep);
    }
    block.store(p, sums, squares, row, fragment);
  });
}

// Backward.
template <class T, class S = T>
struct ProjectBack {
  const S* x;
  const T *w, *factors;
  const S* skip;
  S* dx;
  T* dw;
  int64_t rows;
  int width, count, first, columns;  // first: of the projections here; columns: blocks of columns
};

// Rows whose factors are staged together.
template <int Tiles>
inline constexpr int kChunk = Tiles <= 3 ? 32 : 16;

// The operands of the backward pass's products: factors in two parts, or rounded to one.
struct InTwoParts {
  using Left = SplitLeft;
  using Right = SplitRight;
  using Words = uint4;  // two values of a right operand: their high parts, then their low parts

  static __device__ float factor(float x) { return x; }
  static __device__ void store(uint32_t* to, float x) {
    to[0] = high_part(x);
    to[2] = low_part(x);
  }
  static __device__ Right right(const Words& four) { return {{four.x, four.y}, {four.z, four.w}}; }
};

struct InOnePart {
  using Left = RoundedLeft;
  using Right = RoundedRight;
  using Words = uint2;

  static __device__ float factor(float x) { return rounded_to_tf32(x); }
  static __device__ void store(uint32_t* to, float x) { *to = __float_as_uint(factor(x)); }
  static __device__ Right right(const Words& two) { return {{two.x, two.y}}; }
};

// The factors g and k of some rows. Products take g as right operands, which are in the order in
// which lanes load them.
template <int Tiles, class Parts>
struct StagedFactors {
  using Words = typename Parts::Words;
  static constexpr int kOctets = kChunk<Tiles> / 8;
  Words across[kOctets][Tiles][32];  // inner: projections, outer: rows
  Words down[kOctets][Tiles][32];    // inner: rows (2t, then 2t + 1), outer: projections
  float along[kChunk<Tiles>];        // k

  __device__ void put(int row, int r, float g) {
    const int octet = row / 8, i = row % 8, tile = r / 8, j = r % 8;
    Parts::store(reinterpret_cast<uint32_t*>(&across[octet][tile][4 * i + j % 4]) + j / 4, g);
    Parts::store(reinterpret_cast<uint32_t*>(&down[octet][tile][4 * j + i / 2]) + i % 2, g);
  }
};

// The weights of a lane's four columns for projections 8 s + t and 8 s + t + 4: in registers or, where
// there are too many of them, in shared memory.
template <int Tiles, int Block, bool InRegisters>
struct HeldWeights;

template <int Tiles, int Block>
struct HeldWeights<Tiles, Block, true> {
  static constexpr int kShared = 1;
  float at[Tiles][2][4];

  template <class Load>
  __device__ HeldWeights(float*, const FragmentLane&, int, Load&& load) {
#pragma unroll
    for (int i = 0; i < 8 * Tiles; ++i) at[i / 8][i / 4 % 2][i % 4] = load(i / 8, i / 4 % 2, i % 4);
  }

  // The compiler would keep both parts of every weight from one round to the next, and has no registers
  // for them: splitting again is cheaper than storing and loading.
  __device__ void begin_round() {
#ifndef GEORES_EMULATED
#pragma unroll
    for (int i = 0; i < 8 * Tiles; ++i) asm volatile("" : "+f"(at[i / 8][i / 4 % 2][i % 4]));
#endif
  }
  __device__ void get(int s, int h, float (&to)[4]) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) to[c] = at[s][h][c];
  }
};

template <int Tiles, int Block>
struct HeldWeights<Tiles, Block, false> {
  // Lanes of two g and four t read 16 bytes each at once: rows 8 banks apart do not collide.
  static constexpr int kStride = Block + 8, kShared = 8 * Tiles * kStride;
  float* mine;

  template <class Load>
  __device__ HeldWeights(float* shared, const FragmentLane& fragment, int column_of_block, Load&& load)
      : mine(shared + fragment.t * kStride + column_of_block) {
#pragma unroll
    for (int s = 0; s < Tiles; ++s)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float four[4] = {load(s, h, 0), load(s, h, 1), load(s, h, 2), load(s, h, 3)};
        store_values<4>(mine + (8 * s + 4 * h) * kStride, four);
      }
  }

  __device__ void begin_round() {  // or the compiler would load all of them before the first round
#ifndef GEORES_EMULATED
    asm volatile("" ::: "memory");
#endif
  }
  __device__ void get(int s, int h, float (&to)[4]) const {
    load_values<4>(mine + (8 * s + 4 * h) * kStride, to);
  }
};

// A lane has four neighbouring columns of two neighbouring rows at a time: in a result of columns
// times rows, tile m, rows 2t and 2t + 1 of column 4g + 2m, then of column 4g + 2m + 1. The sums of the
// gradients of its columns stay in registers, and of up to 24 projections the weights too: then 16 warps
// fit on a multiprocessor.
template <int Tiles>
inline constexpr int kBackBlock = Tiles <= 3 ? 256 : 128;  // threads, and columns
template <int Tiles>
inline constexpr int kBackBlocksAtOnce = Tiles <= 3 ? 2 : 4;

// The factors of some rows that are staged next: loaded while products are made with those before them.
template <int Tiles>
struct FactorsAhead {
  static constexpr int kHeld = 8 * Tiles, kEach = kChunk<Tiles> * kHeld / kBackBlock<Tiles>;
  float g[kEach], k = 0;

  template <class S>
  __device__ void load(const ProjectBack<float, S>& p, int64_t begin, int here) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = static_cast<int>(threadIdx.x) + j * kBackBlock<Tiles>, row = i / kHeld,
                r = i % kHeld;
      g[j] = begin + row < p.rows && r < here
                 ? p.factors[(begin + row) * (p.count + 1) + p.first + r]
                 : 0.f;
    }
    if (threadIdx.x < kChunk<Tiles>)
      k = begin + threadIdx.x < p.rows && p.first == 0
              ? p.factors[(begin + threadIdx.x) * (p.count + 1) + p.count]
              : 0.f;
  }
  template <class Staged>
  __device__ void store(Staged& to) const {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int i = static_cast<int>(threadIdx.x) + j * kBackBlock<Tiles>;
      to.put(i / kHeld, i % kHeld, g[j]);
    }
    if (threadIdx.x < kChunk<Tiles>) to.along[threadIdx.x] = k;
  }
};

// Sums of a lane's four columns, for two projections of each tile.
template <int Tiles, class S>
__device__ inline void add_weight_gradients(const ProjectBack<float, S>& p,
                                            const Result (&dweight)[Tiles][2], int column, int here,
                                            const FragmentLane& fragment) {
#pragma unroll
  for (int n = 0; n < Tiles; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = 8 * n + 2 * fragment.t + i;
      const auto& d = dweight[n];
      if (r < here)
        add4(p.dw + static_cast<int64_t>(p.first + r) * p.width + column, d[0].at[i],
             d[0].at[2 + i], d[1].at[i], d[1].at[2 + i]);
    }
}

template <int Tiles, class Parts>
__global__ void __launch_bounds__(kBackBlock<Tiles>, kBackBlocksAtOnce<Tiles>)
    project_back_by_matrices(ProjectBack<float> p) {
  wait_for_previous();
  constexpr int held = 8 * Tiles, block = kBackBlock<Tiles>, chunk = kChunk<Tiles>,
                octets = chunk / 8;
  using Left = typename Parts::Left;
  __shared__ __align__(16) StagedFactors<Tiles, Parts> staged[2];
  const FragmentLane fragment;
  const int column = static_cast<int>(blockIdx.x) % p.columns * block +
                     static_cast<int>(threadIdx.x) / 32 * 32 + 4 * fragment.g,
            group = static_cast<int>(blockIdx.x) / p.columns,
            groups = static_cast<int>(gridDim.x) / p.columns;
  const bool there = column < p.width;
  const int here = min(held, p.count - p.first);
  using Weights = HeldWeights<Tiles, block, Tiles <= 3>;
  __shared__ __align__(16) float held_weights[Weights::kShared];
  Weights weights(held_weights, fragment, static_cast<int>(threadIdx.x) / 32 * 32 + 4 * fragment.g,
                  [&](int s, int h, int c) {
                    const int r = 8 * s + fragment.t + 4 * h;
                    return there && r < here
                               ? Parts::factor(
                                     p.w[static_cast<int64_t>(p.first + r) * p.width + column + c])
                               : 0.f;
                  });
  Result dweight[Tiles][2];

  FactorsAhead<Tiles> ahead;
  // Two rows of the lane's columns; 0 where there are none.
  const auto load = [&](const float* from, int64_t row, float(&to)[2][4]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (there && row + i < p.rows)
        load_values<4>(from + (row + i) * p.width + column, to[i]);
      else
#pragma unroll
        for (int c = 0; c < 4; ++c) to[i][c] = 0;
    }
  };

  const auto step = static_cast<int64_t>(groups) * chunk;
  auto begin = static_cast<int64_t>(group) * chunk;
  int buffer = 0;
  float next[2][4];
  ahead.load(p, begin, here);
  ahead.store(staged[0]);
  load(p.x, begin + 2 * fragment.t, next);
  __syncthreads();
  for (; begin < p.rows; begin += step, buffer = 1 - buffer) {
    const auto& factors = staged[buffer];
    ahead.load(p, begin + step, here);  // on its way while the products are made
#pragma unroll 1
    for (int octet = 0; octet < octets; ++octet) {
      const auto row = begin + 8 * octet + 2 * fragment.t;
      const auto next_row = octet + 1 < octets ? row + 8 : begin + step + 2 * fragment.t;
      float x[2][4], skip[2][4] = {};
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int c = 0; c < 4; ++c) x[i][c] = next[i][c];
      if (p.skip) load(p.skip, row, skip);
      load(p.x, next_row, next);

      const auto left_of = [&](int c) {
        return Left(Parts::factor(x[0][c]), Parts::factor(x[0][c + 1]), Parts::factor(x[1][c]),
                    Parts::factor(x[1][c + 1]));
      };
      const Left left[2] = {left_of(0), left_of(2)};
#pragma unroll
      for (int n = 0; n < Tiles; ++n) {
        const auto right = Parts::right(factors.down[octet][n][threadIdx.x % 32]);
#pragma unroll
        for (int m = 0; m < 2; ++m) multiply_add(dweight[n][m], left[m], right);
      }
      Result sums[2];
      weights.begin_round();
#pragma unroll
      for (int s = 0; s < Tiles; ++s) {
        const auto right = Parts::right(factors.across[octet][s][threadIdx.x % 32]);
        float w[2][4];
        weights.get(s, 0, w[0]);
        weights.get(s, 1, w[1]);
#pragma unroll
        for (int m = 0; m < 2; ++m)
          multiply_add(sums[m], Left(w[0][2 * m], w[0][2 * m + 1], w[1][2 * m], w[1][2 * m + 1]),
                       right);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (!there || row + i >= p.rows) continue;
        const float k = factors.along[8 * octet + 2 * fragment.t + i];
        float out[4];
#pragma unroll
        for (int c = 0; c < 4; ++c)
          out[c] = sums[c / 2].at[c % 2 * 2 + i] + (skip[i][c] + k * x[i][c]);
        store_values<4>(p.dx + (row + i) * p.width + column, out);
      }
    }
    ahead.store(staged[1 - buffer]);
    __syncthreads();
  }
  if (there) add_weight_gradients<Tiles>(p, dweight, column, here, fragment);
}

}  // namespace geores::kernels::device
