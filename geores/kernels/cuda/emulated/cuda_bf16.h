// The part of CUDA's bfloat16 that emulated kernels use (cuda_runtime.h).
#pragma once

#include <cstdint>
#include <cstring>

#include <cuda_runtime.h>

struct __nv_bfloat16 {
  uint16_t bits;
};
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  bits += 0x7fffu + (bits >> 16 & 1);  // to nearest, ties to even
  return {static_cast<uint16_t>(bits >> 16)};
}
inline uint16_t __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
struct __nv_bfloat162 {
  __nv_bfloat16 low, high;
};
inline float2 __bfloat1622float2(__nv_bfloat162 pair) {
  return {__uint_as_float(uint32_t{pair.low.bits} << 16),
          __uint_as_float(uint32_t{pair.high.bits} << 16)};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return {__float2bfloat16_rn(low), __float2bfloat16_rn(high)};
}
