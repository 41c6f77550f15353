// Kernels on a GPU: the same names and arguments as on a CPU with a stream in front, defined in the
// .cu file beside the .cpp. Type A, where there is one, is that of the activations between matrix
// products: T itself, or bfloat16 beside a float state. (T, A) is one of (float, float), (float,
// BFloat16), (double, double).
//
// A build without CUDA has the declarations only: callers ask kHasCuda with `if constexpr`.
#pragma once

#include <cstdint>

struct CUstream_st;
struct CUevent_st;

namespace geores::kernels {

#ifdef GEORES_CUDA
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = false;
#endif

using CudaStream = CUstream_st*;  // cudaStream_t
using Event = CUevent_st*;        // cudaEvent_t

struct BFloat16 {
  uint16_t bits;
};

// The longest row that a lane group keeps in registers, and the numbers of streams compiled.
inline constexpr int64_t kDeviceRow = 512;
inline constexpr int64_t kDeviceStreamWidth = 128;
constexpr bool is_device_stream_count(int64_t n) { return n == 2 || n == 4; }
constexpr bool is_device_mixer_size(int64_t n) { return n >= 2 && n <= 4; }

}  // namespace geores::kernels
