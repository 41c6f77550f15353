// Asynchronous copies to shared memory, and a layout of shared memory without bank conflicts.
#pragma once

#include "geores/kernels/cuda/device.cuh"

namespace geores::kernels::device {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Lines of 64 values. The eight 16-byte pieces of a line are permuted by the line's number, so that
// the same piece of eight lines is in eight different banks. wgmma calls this layout the 128-byte
// swizzle.
inline constexpr int kLine = 128;  // bytes
__device__ inline uint32_t swizzled(int line, int piece) {
  return line * kLine + (piece ^ line % 8) * 16;
}

// Copies 16 bytes, or writes zeros if `copy` is false; then `from` is not read.
__device__ inline void copy_or_clear(uint32_t to, const BFloat16* from, bool copy) {
#ifdef GEORES_EMULATED
  auto* const bytes = emulated::Block::current->at(to);
  copy ? std::memcpy(bytes, from, 16) : std::memset(bytes, 0, 16);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(copy ? 16 : 0)
               : "memory");
#endif
}

__device__ inline void end_copies() {
#ifndef GEORES_EMULATED
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until all but the last `Pending` groups of this thread's copies have arrived.
template <int Pending>
__device__ inline void wait_for_copy_groups() {
#ifndef GEORES_EMULATED
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

}  // namespace geores::kernels::device
