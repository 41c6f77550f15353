// A token that a warp walks along twice, copied to shared memory on the first way. Otherwise the warps
// of a GPU have more tokens under way than its caches hold, and the second walk reads memory again.
#pragma once

#include "geores/kernels/streams/wide.cuh"

namespace geores::kernels::device {

// Bytes for the `copies` tokens of n · d values that each warp of a block holds; 0: none are held,
// because they are so small that the caches keep them, or too large.
template <class T>
size_t held_bytes(int64_t n, int64_t d, int copies) {
  constexpr size_t small = 6 * 1024, most = 100 * 1024;  // most: two blocks on a multiprocessor
  const auto token = static_cast<size_t>(n * d) * sizeof(T), block = kWideWarps * copies * token;
  return token < small || block > most ? 0 : block;
}

template <int V, class T>
__device__ inline void copy_to_shared(const T* from, T* to) {
#ifdef GEORES_EMULATED
  for (int i = 0; i < V; ++i) to[i] = from[i];
#else
  if constexpr (V * sizeof(T) == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from)
                 : "memory");
  else if constexpr (V * sizeof(T) == 8)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from)
                 : "memory");
  else
#pragma unroll
    for (int i = 0; i < V; ++i) to[i] = from[i];
#endif
}

// Starts to copy this lane's columns of N streams. Each lane reads only its own copies, so it waits for
// its own copies alone.
template <int N, int V, class T>
__device__ inline void copy_token(const T* from, T* to, int d) {
  for_each_run<V>(d, [&](int column) {
#pragma unroll
    for (int j = 0; j < N; ++j) copy_to_shared<V>(from + j * d + column, to + j * d + column);
  });
}

__device__ inline void wait_for_copies() {
#ifndef GEORES_EMULATED
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace geores::kernels::device
