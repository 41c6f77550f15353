// For how many residual streams there are kernels, and from a number known at run time to a compile-time
// size. Operations with other numbers run composed.
//
//                                                                  CPU              GPU
//   streams of up to kDeviceStreamWidth values, in registers       1 to 16          2, 4
//   streams of any width, tokens of up to kMostWideValues          1 to 16          2 to 8
//   the matrix of a token by Sinkhorn, on the spectral sphere      2, 3, 4, 8, 16   2 to 8
//   by Cayley map, rotation and reflection, permutations           2, 3, 4, 8, 16   2 to 4
//   all routes of a token, its reading and its writing at once     2, 3, 4, 8, 16   4
#pragma once

#include <cstdint>
#include <utility>

namespace geores::kernels {

template <int... N>
using Counts = std::integer_sequence<int, N...>;

using CompiledSizes = Counts<2, 3, 4, 8, 16>;     // matrices on a CPU, for float and double
using DeviceMixers = Counts<2, 3, 4>;             // on a GPU
using DeviceStreams = Counts<2, 4>;               // in registers, on a GPU
using WideStreams = Counts<2, 3, 4, 5, 6, 7, 8>;  // and the mixers for them, on a GPU
inline constexpr int kRoutedStreams = 4;          // of a token in one kernel, on a GPU
inline constexpr int64_t kMostStreams = 16;       // on a CPU

template <int... N>
constexpr bool is_one_of(Counts<N...>, int64_t n) {
  return ((n == N) || ...);
}
constexpr bool is_compiled_size(int64_t n) { return is_one_of(CompiledSizes(), n); }
constexpr bool is_device_mixer_size(int64_t n) { return is_one_of(DeviceMixers(), n); }
constexpr bool is_device_stream_count(int64_t n) { return is_one_of(DeviceStreams(), n); }
constexpr bool is_wide_stream_count(int64_t n) { return is_one_of(WideStreams(), n); }

// f(std::integral_constant<int, n>()) if n is one of the counts; otherwise nothing.
template <int... N, class F>
void with_count(Counts<N...>, int64_t n, F&& f) {
  ((n == N && (f(std::integral_constant<int, N>()), true)) || ...);
}
template <class F>
void with_size(int64_t n, F&& f) {
  with_count(CompiledSizes(), n, f);
}

}  // namespace geores::kernels
