// Copies to shared memory under way while others are used, and the layout that has no two lanes at
// the same bank.
#pragma once

#include "geores/kernels/cuda/device.cuh"

namespace geores::kernels::device {

__device__ inline uint32_t shared_address(const void* place) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(place));
}

// Lines of 64 values. The eight 16-byte pieces of a line are permuted by its number, so that a
// piece of eight lines lies in different banks: what wgmma calls the 128-byte swizzle.
inline constexpr int kLine = 128;  // bytes
__device__ inline uint32_t swizzled(int line, int piece) {
  return line * kLine + (piece ^ line % 8) * 16;
}

// 16 bytes, or zeros where there is nothing to copy: `from` is not read then.
__device__ inline void copy_or_clear(uint32_t to, const BFloat16* from, bool copy) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(copy ? 16 : 0)
               : "memory");
}

__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all but the last `Pending` groups of this thread's copies are there.
template <int Pending>
__device__ inline void wait_for_copy_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

}  // namespace geores::kernels::device
