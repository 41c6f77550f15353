// Products of float values by matrix instructions with tf32 factors (m16n8k8). tf32 keeps 10 bits of a
// mantissa; a factor that is split into two of them keeps 20, so that three products have nearly all
// digits of a float.
#pragma once

#include "geores/kernels/cuda/matrix.cuh"

namespace geores::kernels::device {

// c (16 × 8) += a (16 × 8) · b (8 × 8). Lane 4g + t holds
//   a: rows g and g + 8 of column t, then of column t + 4;   b: rows t and t + 4 of column g.
// The instruction ignores the last 13 bits of factors.
__device__ inline void multiply_add(Result& c, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#ifdef GEORES_EMULATED
  emulated::Block::current->multiply_add_tf32(c.at, {a[0], a[1], a[2], a[3], b0, b1});
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c.at[0]), "+f"(c.at[1]), "+f"(c.at[2]), "+f"(c.at[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// x = high + low up to 2⁻²⁰ of x, once the instruction has cut off the end of low.
__device__ inline uint32_t high_part(float x) { return __float_as_uint(x) & 0xffffe000u; }
__device__ inline uint32_t low_part(float x) {
  return __float_as_uint(x - __uint_as_float(high_part(x)));
}

struct SplitLeft {
  uint32_t high[4], low[4];

  __device__ SplitLeft(float a0, float a1, float a2, float a3)
      : high{high_part(a0), high_part(a1), high_part(a2), high_part(a3)},
        low{low_part(a0), low_part(a1), low_part(a2), low_part(a3)} {}
};

struct SplitRight {
  uint32_t high[2], low[2];
};
__device__ inline SplitRight split_right(float b0, float b1) {
  return {{high_part(b0), high_part(b1)}, {low_part(b0), low_part(b1)}};
}

// The omitted term, low · low, is 2⁻²⁰ of the product.
__device__ inline void multiply_add(Result& c, const SplitLeft& a, const SplitRight& b) {
  multiply_add(c, a.low, b.high[0], b.high[1]);
  multiply_add(c, a.high, b.low[0], b.low[1]);
  multiply_add(c, a.high, b.high[0], b.high[1]);
}

// x rounded to tf32, to the nearest one.
__device__ inline float rounded_to_tf32(float x) {
  uint32_t bits;
#ifdef GEORES_EMULATED
  bits = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
#else
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
#endif
  return __uint_as_float(bits);
}

// Factors that are rounded already: one product instead of three.
struct RoundedLeft {
  uint32_t at[4];

  __device__ RoundedLeft(float a0, float a1, float a2, float a3)
      : at{word(a0), word(a1), word(a2), word(a3)} {}

 private:
  static __device__ uint32_t word(float x) { return __float_as_uint(x); }
};

struct RoundedRight {
  uint32_t at[2];
};

__device__ inline void multiply_add(Result& c, const RoundedLeft& a, const RoundedRight& b) {
  multiply_add(c, a.at, b.at[0], b.at[1]);
}

}  // namespace geores::kernels::device
