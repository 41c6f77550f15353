// What the two kernels that hold their tokens share (held_streams.h).
#pragma once

#include "geores/kernels/cuda/cluster.cuh"
#include "geores/kernels/cuda/copies.cuh"
#include "geores/kernels/routed/held_streams.h"
#include "geores/kernels/routed/wide_half_matrices.cuh"

namespace geores::kernels::device {

inline constexpr int kMostHeldColumns = 192;  // of a stream, for a block
inline constexpr size_t kMostHeldBytes = 227 * 1024;

// Clusters of so many blocks, one block on a multiprocessor, that an H100 or H200 runs at once: those of its
// 132 multiprocessors that are left over in a group have none.
constexpr int64_t held_clusters(int blocks) {
  const int multiple = blocks < 4 ? 1 : 4;
  return kBlocksForSums / 2 / blocks / multiple * multiple;
}

// f(streams, tiles of eight projections, blocks of a cluster) with the fewest blocks whose shared memory holds
// a tile. Memory says how much that is. Returns whether there is a kernel.
template <template <int, int, int> class Memory, int N, int Tiles, int Blocks, class F>
bool with_held_blocks(int64_t d, int64_t count, F&& f) {
  if (d % (8 * Blocks) == 0 && d / Blocks <= kMostHeldColumns &&
      Memory<N, Tiles, Blocks>::bytes(static_cast<int>(d / Blocks), static_cast<int>(count)) <=
          kMostHeldBytes) {
    f(std::integral_constant<int, N>(), std::integral_constant<int, Tiles>(),
      std::integral_constant<int, Blocks>());
    return true;
  }
#ifndef GEORES_EMULATED  // which runs one block after the other
  if constexpr (Blocks < 8) return with_held_blocks<Memory, N, Tiles, 2 * Blocks>(d, count, f);
#endif
  return false;
}

template <template <int, int, int> class Memory, class F>
bool with_held(int64_t n, int64_t d, int64_t count, F&& f) {
  if (n != 4 || count < 2 * n) return false;
  if (count <= 8) return with_held_blocks<Memory, 4, 1, 1>(d, count, f);
  if (count <= 16) return with_held_blocks<Memory, 4, 2, 1>(d, count, f);
  if (count <= 24) return with_held_blocks<Memory, 4, 3, 1>(d, count, f);
  return count <= 32 && with_held_blocks<Memory, 4, 4, 1>(d, count, f);
}

// Starts to copy 8 values to shared memory, or clears them.
__device__ inline void copy_eight(BFloat16* to, const BFloat16* from, bool there) {
#ifdef GEORES_EMULATED
  for (int i = 0; i < 8; ++i) to[i] = there ? from[i] : BFloat16{0};
#else
  copy_or_clear(shared_address(to), from, there);
#endif
}

// The copies that were started belong together.
__device__ inline void end_held_copies() {
#ifndef GEORES_EMULATED
  end_copies();
#endif
}

__device__ inline void wait_for_held_copies() {
#ifndef GEORES_EMULATED
  wait_for_copy_groups<0>();
#endif
  __syncthreads();
}

}  // namespace geores::kernels::device
