// Clusters: Blocks neighbouring blocks that run at the same time and write into each other's shared memory.
#pragma once

#include "geores/kernels/cuda/device.cuh"

namespace geores::kernels::device {

template <int Blocks>
struct Cluster {
  // This block's number within its cluster.
  static __device__ int rank() { return static_cast<int>(blockIdx.x) % Blocks; }

  // Waits until all threads of the cluster are here; what they stored before is visible then.
  static __device__ void meet() {
    if constexpr (Blocks == 1) {
      __syncthreads();
    } else {
#ifndef GEORES_EMULATED
      asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
      asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
    }
  }

  // Stores where `place`, an address in shared memory, lies in block `to` of the cluster.
  static __device__ void store(float* place, int to, float value) {
    if constexpr (Blocks == 1) {
      *place = value;
    } else {
#ifndef GEORES_EMULATED
      const auto mine = static_cast<uint32_t>(__cvta_generic_to_shared(place));
      uint32_t theirs;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"(mine), "r"(to));
      asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(theirs), "f"(value) : "memory");
#endif
    }
  }
};

}  // namespace geores::kernels::device
