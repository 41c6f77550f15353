// Kernels on a GPU. They have the names and arguments of the CPU kernels, with a CUDA stream in
// front, and are defined in the .cu file next to the .cpp. Type A, where there is one, is the type
// of the activations between matrix products: T itself, or bfloat16 with a float state. (T, A) is
// one of (float, float), (float, BFloat16), (double, double). Type S, where there is one, is the type
// that the residual state and its gradient are kept in: T, or BFloat16 where A is that too. Sums are
// made in T all the same.
//
// A build without CUDA has the declarations only: callers ask kHasCuda with `if constexpr`.
#pragma once

#include <cstdint>

struct CUstream_st;
struct CUevent_st;

namespace geores::kernels {

// A test build without a GPU may emulate one: its kernels take a CPU's tensors (cuda/emulated).
#ifdef GEORES_EMULATED
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif
#ifdef GEORES_CUDA
inline constexpr bool kHasCuda = true;
#else
inline constexpr bool kHasCuda = kEmulated;
#endif

using CudaStream = CUstream_st*;  // cudaStream_t
using Event = CUevent_st*;        // cudaEvent_t

struct BFloat16 {
  uint16_t bits;
};

// Limits of the GPU kernels: the longest row and the widest residual stream that a group of lanes
// keeps in registers. sizes.h has the numbers of streams.
inline constexpr int64_t kDeviceRow = 512;
inline constexpr int64_t kDeviceStreamWidth = 128;

}  // namespace geores::kernels
