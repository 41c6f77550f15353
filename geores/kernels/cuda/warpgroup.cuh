// Products by warpgroups (wgmma): four warps multiply 64 rows. The right factor is in shared
// memory, the left one there or in registers. GPUs of compute capability 9.0 alone have them (sm_90a).
#pragma once

#include "geores/kernels/cuda/copies.cuh"
#include "geores/kernels/cuda/matrix.cuh"

namespace geores::kernels::device {

// GEORES_WARPGROUPS tells host code that device code for sm_90a was compiled. Device code asks
// for its own target, because nvcc compiles it for others as well.
#if defined(GEORES_EMULATED)
inline constexpr bool kHasWarpgroups = true;
#elif defined(__CUDA_ARCH__) ? defined(__CUDA_ARCH_FEAT_SM90_ALL) : defined(GEORES_WARPGROUPS)
inline constexpr bool kHasWarpgroups = true;
#else
inline constexpr bool kHasWarpgroups = false;
#endif

// Whether this GPU has warpgroups and this build has code for them.
inline bool has_warpgroups() {
  static const bool has = [] {
    int device = 0, major = 0, minor = 0;
    const bool known =
        cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess;
    if (!known) cudaGetLastError();  // clears the error, so that the next launch does not report it
    return kHasWarpgroups && known && major == 9 && minor == 0;
  }();
  return has;
}

// The descriptor of a factor in shared memory, made of swizzled lines of 64 or 32 values. `address`
// is a multiple of eight lines plus the offset of the first line and piece. If the lines run along
// rows or columns of the result, the next 64 or 32 rows or columns are `next` bytes further. If the
// lines run along the sum, `next` is not used.
template <int Line = kLine>
__device__ inline uint64_t describe(uint32_t address, uint32_t next = 16) {
  static_assert(Line == 128 || Line == 64);
  constexpr uint64_t swizzle = uint64_t(Line == 128 ? 1 : 2) << 62, eight_lines = 8 * Line >> 4;
  return swizzle | eight_lines << 32 | uint64_t(next >> 4) << 16 | ((address & 0x3ffffu) >> 4);
}

// Instructions that order products and other work, which emulated products need not.
#ifdef GEORES_EMULATED
#define GEORES_ORDER(instruction, ...)
#else
#define GEORES_ORDER(instruction, ...) asm volatile(instruction ::__VA_ARGS__ : "memory")
#endif

// Must come before a product reads registers or shared memory that threads wrote.
__device__ inline void begin_products() { GEORES_ORDER("wgmma.fence.sync.aligned;"); }
__device__ inline void end_products() { GEORES_ORDER("wgmma.commit_group.sync.aligned;"); }
template <int Pending>
__device__ inline void wait_for_products() {
  GEORES_ORDER("wgmma.wait_group.sync.aligned %0;", "n"(Pending));
}
// Makes this thread's writes to shared memory visible to products.
__device__ inline void show_to_products() { GEORES_ORDER("fence.proxy.async.shared::cta;"); }

// Forces the values into their registers. Before products: otherwise the compiler might put off
// computing them, and the products would have to wait. After products: otherwise it might read them
// too early.
template <int Values>
__device__ inline void settle(float (&c)[Values]) {
#ifndef GEORES_EMULATED
#pragma unroll
  for (int i = 0; i < Values; ++i) asm volatile("" : "+f"(c[i])::"memory");
#endif
}

// The threads of one of two warpgroups of this block wait for each other.
__device__ inline void wait_for_warpgroup(int group) {
#ifdef GEORES_EMULATED
  emulated::Block::current->meet_some(1 + group, 128);
#else
  if (group == 0)
    asm volatile("bar.sync 1, 128;" ::: "memory");
  else
    asm volatile("bar.sync 2, 128;" ::: "memory");
#endif
}

#ifdef GEORES_EMULATED

template <bool TransposeB>
void warpgroup_multiply_add(float (&c)[64], uint64_t a, uint64_t b) {
  emulated::Block::current->multiply_add_rows(c, {a}, {b, TransposeB});
}
template <bool Add, bool TransposeB, int Values>
void warpgroup_multiply(float (&c)[Values], const Left& a, uint64_t b) {
  if constexpr (!Add) std::fill_n(c, Values, 0.f);
  emulated::Block::current->multiply_add_rows(c, {.registers = a.at}, {b, TransposeB});
}
template <bool Add>
void warpgroup_multiply_lines(float (&c)[16], uint64_t a, uint64_t b) {
  if constexpr (!Add) std::fill_n(c, 16, 0.f);
  emulated::Block::current->multiply_add_rows(c, {a, true}, {b, true});
}

#else

// c (64 × 128) += a · b. TransposeB: b's lines run along the result, not along the sum. c[4 n + i]
// is value i (see Result) of columns 8 n to 8 n + 7, rows starting at 16 · warp.
template <bool TransposeB>
__device__ inline void warpgroup_multiply_add(float (&c)[64], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, add, 1, 1, 0, %67;\n"
      "}\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]),
        "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
        "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]),
        "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]),
        "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]),
        "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
        "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]),
        "+f"(c[63])
      : "l"(a), "l"(b), "r"(1), "n"(TransposeB ? 1 : 0));
}

// c (64 × 32) = or += a · b; a is in registers, 16 rows for each warp.
template <bool Add, bool TransposeB>
__device__ inline void warpgroup_multiply(float (&c)[16], const Left& a, uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "{%16, %17, %18, %19}, %20, add, 1, 1, %22;\n"
      "}\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15])
      : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "l"(b), "n"(Add ? 1 : 0),
        "n"(TransposeB ? 1 : 0));
}

// c (64 × 64) = or += a · b; a is in registers, 16 rows for each warp.
template <bool Add, bool TransposeB>
__device__ inline void warpgroup_multiply(float (&c)[32], const Left& a, uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, add, 1, 1, %38;\n"
      "}\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]),
        "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
        "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
      : "r"(a.at[0]), "r"(a.at[1]), "r"(a.at[2]), "r"(a.at[3]), "l"(b), "n"(Add ? 1 : 0),
        "n"(TransposeB ? 1 : 0));
}

// c (64 × 32) = or += aᵀ · b; the lines of both run along the result.
template <bool Add>
__device__ inline void warpgroup_multiply_lines(float (&c)[16], uint64_t a, uint64_t b) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, add, 1, 1, 1, 1;\n"
      "}\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15])
      : "l"(a), "l"(b), "n"(Add ? 1 : 0));
}

#endif

}  // namespace geores::kernels::device
