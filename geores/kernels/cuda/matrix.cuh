// Products by matrix instructions (m16n8k16, bfloat16 factors, float sums): a warp multiplies 16
// rows that it holds in registers with rows of bfloat16 values in shared memory.
#pragma once

#include "geores/kernels/cuda/device.cuh"

namespace geores::kernels::device {

// The registers of one operand or result of a matrix instruction. Lane 4g + t holds
//   of a 16 × 16 left operand: rows g and g + 8, columns 2t, 2t + 1, 2t + 8 and 2t + 9;
//   of a 16 × 8 result:        rows g and g + 8, columns 2t and 2t + 1.
struct Left {
  uint32_t at[4];
};
struct Result {
  float at[4] = {0, 0, 0, 0};
};

struct FragmentLane {  // the g and t of a lane, as above
  int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
};

__device__ inline void multiply_add(Result& c, const Left& a, uint32_t b0, uint32_t b1) {
#ifdef GEORES_EMULATED
  emulated::Block::current->multiply_add_bfloat16(c.at,
                                                  {a.at[0], a.at[1], a.at[2], a.at[3], b0, b1});
#else
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c.at[0]), "+f"(c.at[1]), "+f"(c.at[2]), "+f"(c.at[3])
      : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "r"(b0), "r"(b1));
#endif
}

// Takes an address in shared memory, because addresses in swizzled lines are computed as numbers.
template <bool Transpose>
__device__ inline void load_matrices(uint32_t (&to)[4], uint32_t address) {
#ifdef GEORES_EMULATED
  auto* const block = emulated::Block::current;
  block->load_matrices(to, block->at(address), Transpose);
#else
  if constexpr (Transpose)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
#endif
}

// Stores four 8 × 8 matrices in the order in which load_matrices loads them.
__device__ inline void store_matrices(uint32_t row, const uint32_t (&from)[4]) {
#ifdef GEORES_EMULATED
  auto* const block = emulated::Block::current;
  block->store_matrices(block->at(row), from);
#else
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(row),
               "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
#endif
}

template <bool Transpose>
__device__ inline void load_matrices(uint32_t (&to)[4], const BFloat16* row) {
#ifdef GEORES_EMULATED
  emulated::Block::current->load_matrices(to, row, Transpose);
#else
  load_matrices<Transpose>(to, static_cast<uint32_t>(__cvta_generic_to_shared(row)));
#endif
}

__device__ inline uint32_t pack(float low, float high) {
  const auto both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

// Turns two results side by side into the left operand of a further product.
__device__ inline Left as_left(const Result& low, const Result& high) {
  return {{pack(low.at[0], low.at[1]), pack(low.at[2], low.at[3]), pack(high.at[0], high.at[1]),
           pack(high.at[2], high.at[3])}};
}

// The maximum over the four lanes that hold a row of results.
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

inline constexpr float kLog2e = 1.4426950408889634f;
__device__ inline float exponential2(float x) {
#ifdef GEORES_EMULATED
  return std::exp2(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

// Right operands can be stored in the order in which lanes load them: for the matrix number
// `matrix`, 16 × 8, four consecutive numbers for each lane. Returns the index of the number in row
// `inner`, column `outer`.
__device__ inline int64_t fragment_index(int64_t matrix, int inner, int outer) {
  const int lane = outer * 4 + inner % 8 / 2;
  return (matrix * 32 + lane) * 4 + inner % 2 + inner / 8 * 2;
}

// A (length, D) matrix in shared memory; rows are padded by 16 bytes so that the eight rows of an
// 8 × 8 matrix are in different banks.
template <int D>
struct Rows {
  static constexpr int kStride = D + 8, kSteps = D / 16;
  BFloat16* at;

  static constexpr size_t bytes(size_t rows) { return rows * kStride * sizeof(BFloat16); }

  __device__ BFloat16* row(int i) const { return at + i * kStride; }

  // Loads 16 rows starting at `first` as left operands, one for each 16 columns.
  __device__ void left(int first, Left (&to)[kSteps]) const {
    const int lane = threadIdx.x % 32, matrix = lane / 8;
#pragma unroll
    for (int k = 0; k < kSteps; ++k)
      load_matrices<false>(to[k].at,
                           row(first + matrix % 2 * 8 + lane % 8) + k * 16 + matrix / 2 * 8);
  }

  // c (16 × 8 Tiles) += a (16 × D) · (8 Tiles rows starting at `first`)ᵀ.
  template <int Tiles>
  __device__ void add_times_transpose(const Left (&a)[kSteps], int first,
                                      Result (&c)[Tiles]) const {
    const int lane = threadIdx.x % 32, matrix = lane / 8;
#pragma unroll
    for (int k = 0; k < kSteps; ++k)
#pragma unroll
      for (int n = 0; n < Tiles; n += 2) {
        uint32_t b[4];
        load_matrices<false>(
            b, row(first + n * 8 + matrix / 2 * 8 + lane % 8) + k * 16 + matrix % 2 * 8);
        multiply_add(c[n], a[k], b[0], b[1]);
        multiply_add(c[n + 1], a[k], b[2], b[3]);
      }
  }

  // c (16 × 8 Tiles) += a (16 × 16 Steps) · (16 Steps rows starting at `first`, columns starting at
  // `column`).
  template <int Steps, int Tiles>
  __device__ void add_times(const Left (&a)[Steps], int first, int column,
                            Result (&c)[Tiles]) const {
    const int lane = threadIdx.x % 32, matrix = lane / 8;
#pragma unroll
    for (int k = 0; k < Steps; ++k)
#pragma unroll
      for (int n = 0; n < Tiles; n += 2) {
        uint32_t b[4];
        load_matrices<true>(
            b, row(first + k * 16 + matrix % 2 * 8 + lane % 8) + column + n * 8 + matrix / 2 * 8);
        multiply_add(c[n], a[k], b[0], b[1]);
        multiply_add(c[n + 1], a[k], b[2], b[3]);
      }
  }
};

// Starts to copy `length` rows of D values, `stride` apart, and zeros up to row `padded`; `from` is
// aligned to 16 bytes. The copies have arrived after wait_for_copies().
template <int D>
__device__ inline void fill(const Rows<D>& to, const BFloat16* from, int64_t stride, int length,
                            int padded) {
  constexpr int pieces = D / 8;  // 16-byte pieces of a row
  for (int i = threadIdx.x; i < padded * pieces; i += blockDim.x) {
    const int row = i / pieces, piece = i % pieces;
    auto* address = to.row(row) + piece * 8;
    if (row < length)
#ifdef GEORES_EMULATED
      std::memcpy(address, from + row * stride + piece * 8, 16);
#else
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                       static_cast<uint32_t>(__cvta_generic_to_shared(address))),
                   "l"(from + row * stride + piece * 8));
#endif
    else
      *reinterpret_cast<uint4*>(address) = make_uint4(0, 0, 0, 0);
  }
}

// Starts to copy `count` floats, a multiple of 4; both ends are aligned to 16 bytes.
__device__ inline void copy_async(float* to, const float* from, int count) {
  for (int i = threadIdx.x * 4; i < count; i += blockDim.x * 4)
#ifdef GEORES_EMULATED
    for (int k = 0; k < 4; ++k) to[i + k] = from[i + k];
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(to + i))),
                 "l"(from + i));
#endif
}

__device__ inline void wait_for_copies() {
#ifndef GEORES_EMULATED
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  __syncthreads();
}

// Loads 16 rows starting at `first` as left operands, straight from global memory; rows from
// `length` on are zero.
template <int Steps>
__device__ inline void load_left(const BFloat16* from, int64_t stride, int first, int length,
                                 Left (&to)[Steps]) {
  const FragmentLane fragment;
#pragma unroll
  for (int k = 0; k < Steps; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first + fragment.g + i % 2 * 8, column = k * 16 + i / 2 * 8 + 2 * fragment.t;
      to[k].at[i] =
          row < length ? *reinterpret_cast<const uint32_t*>(from + row * stride + column) : 0u;
    }
}

// Stores 16 rows of results starting at `first` as bfloat16, but only the rows before `length`.
template <int Tiles>
__device__ inline void store_rows(const Result (&c)[Tiles], float factor0, float factor1,
                                  BFloat16* to, int64_t stride, int first, int length) {
  const FragmentLane fragment;
#pragma unroll
  for (int n = 0; n < Tiles; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + fragment.g + 8 * half;
      const float factor = half == 0 ? factor0 : factor1;
      if (row < length)
        *reinterpret_cast<uint32_t*>(to + row * stride + n * 8 + 2 * fragment.t) =
            pack(c[n].at[2 * half] * factor, c[n].at[2 * half + 1] * factor);
    }
}

// Adds four values to consecutive ones; `to` is aligned to 16 bytes.
__device__ inline void add4(float* to, float a, float b, float c, float d) {
#ifdef GEORES_EMULATED
  to[0] += a, to[1] += b, to[2] += c, to[3] += d;
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 900
  atomicAdd(to, a), atomicAdd(to + 1, b), atomicAdd(to + 2, c), atomicAdd(to + 3, d);
#else
  asm volatile("red.global.add.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(to), "f"(a), "f"(b), "f"(c),
               "f"(d)
               : "memory");
#endif
}

// A matrix in global memory to which blocks add their results; its number of columns is a multiple
// of 8.
struct Total {
  float* at;
  int64_t rows, columns;
  bool vectors;  // whether rows are aligned to 16 bytes

  __device__ Total(float* sums, int64_t row_count, int64_t column_count)
      : at(sums),
        rows(row_count),
        columns(column_count),
        vectors(reinterpret_cast<uintptr_t>(sums) % 16 == 0) {}

  // Adds a result whose first row and column are given, the same in all lanes. With aligned rows,
  // lanes first exchange values, so that each adds four neighbours of a row, 16 bytes.
  __device__ void add(int first_row, int first_column, const Result& result) const {
    if (first_column >= columns) return;
    const auto& c = result.at;
    const FragmentLane fragment;
    if (vectors) {
      const bool odd = fragment.t % 2 != 0;
      const float a = __shfl_xor_sync(kAllLanes, odd ? c[0] : c[2], 1),
                  b = __shfl_xor_sync(kAllLanes, odd ? c[1] : c[3], 1);
      const int row = first_row + fragment.g + 8 * odd;
      if (row < rows)
        add4(at + row * columns + first_column + fragment.t / 2 * 4, odd ? a : c[0], odd ? b : c[1],
             odd ? c[2] : a, odd ? c[3] : b);
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + fragment.g + 8 * half;
        if (row >= rows) continue;
        float* to = at + row * columns + first_column + 2 * fragment.t;
        atomicAdd(to, c[2 * half]), atomicAdd(to + 1, c[2 * half + 1]);
      }
    }
  }
};

}  // namespace geores::kernels::device
