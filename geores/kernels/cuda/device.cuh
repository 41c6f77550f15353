// Tools that the GPU kernels share: how a group of lanes holds a row in registers, sums over a
// group and over a block, and conversion of activations.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "geores/kernels/device.h"

namespace geores::kernels::device {

inline constexpr int kThreads = 256;
inline constexpr unsigned kAllLanes = 0xffffffffu;

// The shared memory that a launch asks for. Emulated kernels: cuda/emulated/cuda_runtime.h.
#ifdef GEORES_EMULATED
#define GEORES_ALIGNED_SHARED_BYTES(name, bytes) \
  unsigned char* const name = emulated::Block::current->shared
#else
#define GEORES_ALIGNED_SHARED_BYTES(name, bytes) \
  extern __shared__ __align__(bytes) unsigned char name[]
#endif
#define GEORES_SHARED_BYTES(name) GEORES_ALIGNED_SHARED_BYTES(name, 16)

struct Grid {
  int64_t blocks, threads;
  size_t shared = 0;  // bytes for each block
};

// Whether kernels were compiled to wait for the kernel before them, which GPUs can since Hopper. PTX
// for older ones that runs on a newer one does not wait.
template <int = 0>
__global__ void empty_kernel() {}
inline bool kernels_wait() {
#ifdef GEORES_EMULATED
  return true;
#else
  static const bool wait = [] {
    cudaFuncAttributes compiled{};
    return cudaFuncGetAttributes(&compiled, empty_kernel<0>) == cudaSuccess &&
           compiled.ptxVersion >= 90;
  }();
  return wait;
#endif
}

// Launches a kernel whose blocks may be set up before the kernel before it has ended: a step has
// hundreds of short kernels. Every kernel begins with wait_for_previous().
template <class... Parameters, class... Arguments>
void launch(CudaStream stream, const Grid& grid, void (*kernel)(Parameters...),
            Arguments... arguments) {
  constexpr size_t without_asking = 48 * 1024;
  if (grid.shared > without_asking)
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(grid.shared));
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.blocks));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = grid.shared;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = kernels_wait() ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// Waits until everything that earlier kernels wrote is visible; then lets the next kernel set up
// its blocks.
__device__ inline void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Checks at once whether a launch was refused: the error would otherwise show up anywhere later, or
// never.
inline void check_launch(const char* what) {
  const auto error = cudaGetLastError();
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// Of the GPU that runs the first kernel; the GPUs of a machine are equal.
inline int multiprocessors() {
  static const int count = [] {
    int device = 0, made = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&made, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
      check_launch("multiprocessors");
    return std::max(1, made);
  }();
  return count;
}
// Blocks that each add their sums to global memory at their end: few, and all of them at once.
inline int blocks_for_sums() { return 2 * multiprocessors(); }

__device__ inline float number(float x) { return x; }
__device__ inline double number(double x) { return x; }
__device__ inline float number(BFloat16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}

template <class A>
struct As {
  static __device__ A from(A x) { return x; }
};
template <>
struct As<BFloat16> {
  static __device__ BFloat16 from(float x) {
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
  }
};

// Reads or writes V consecutive values, in accesses of 8 or 16 bytes if they fill those; the address
// must be aligned to that.
template <int V, class A, class T>
__device__ inline void load_values(const A* from, T* to) {
  if constexpr (V == 4 && sizeof(A) == 4) {
    const auto four = *reinterpret_cast<const float4*>(from);
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  } else if constexpr (V == 8 && sizeof(A) == 4) {
    load_values<4>(from, to);
    load_values<4>(from + 4, to + 4);
  } else if constexpr (V == 8 && sizeof(A) == 2) {
    const auto eight = *reinterpret_cast<const uint4*>(from);
    const auto* parts = reinterpret_cast<const BFloat16*>(&eight);
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = number(parts[i]);
  } else if constexpr (V == 4 && sizeof(A) == 2) {
    const auto four = *reinterpret_cast<const ushort4*>(from);
    to[0] = number(BFloat16{four.x}), to[1] = number(BFloat16{four.y});
    to[2] = number(BFloat16{four.z}), to[3] = number(BFloat16{four.w});
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) to[i] = number(from[i]);
  }
}

// V consecutive values that are loaded ahead, and converted where they are used: a conversion waits for its
// value, so directly after the load it would serialise them.
template <int V, class A>
struct LoadedAhead {
  A at[V];

  __device__ void load(const A* from) { load_values<V>(from, at); }
  __device__ A operator[](int i) const { return at[i]; }
};
template <int V>
struct LoadedAhead<V, BFloat16> {
  static_assert(V == 4 || V == 8);
  uint32_t at[V / 2];  // two values each

  __device__ void load(const BFloat16* from) {
    if constexpr (V == 8) {
      const auto words = *reinterpret_cast<const uint4*>(from);
      at[0] = words.x, at[1] = words.y, at[2] = words.z, at[3] = words.w;
    } else {
      const auto words = *reinterpret_cast<const uint2*>(from);
      at[0] = words.x, at[1] = words.y;
    }
  }
  __device__ float operator[](int i) const {
    return __uint_as_float(i % 2 == 0 ? at[i / 2] << 16 : at[i / 2] & 0xffff0000u);
  }
};

template <int V, class A, class T>
__device__ inline void store_values(A* to, const T* from) {
  if constexpr (V == 4 && sizeof(A) == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
  } else if constexpr (V == 8 && sizeof(A) == 4) {
    store_values<4>(to, from);
    store_values<4>(to + 4, from + 4);
  } else if constexpr (V == 8 && sizeof(A) == 2) {
    uint4 eight;
    auto* parts = reinterpret_cast<BFloat16*>(&eight);
#pragma unroll
    for (int i = 0; i < 8; ++i) parts[i] = As<A>::from(from[i]);
    *reinterpret_cast<uint4*>(to) = eight;
  } else if constexpr (V == 4 && sizeof(A) == 2) {
    *reinterpret_cast<ushort4*>(to) =
        make_ushort4(As<A>::from(from[0]).bits, As<A>::from(from[1]).bits,
                     As<A>::from(from[2]).bits, As<A>::from(from[3]).bits);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) to[i] = As<A>::from(from[i]);
  }
}

// The columns of a row that one lane of a group holds: Vector consecutive ones, Rounds times. A row
// may be shorter than the group can hold; if Vector is 4, the width must be a multiple of 4.
template <int Vector, int Group, int Rounds>
struct Columns {
  static constexpr int kVector = Vector, kGroup = Group, kHeld = Vector * Rounds;

  // f(index in the lane's array, column) for each run of Vector columns.
  template <class F>
  static __device__ void for_each_run(int lane, int width, F&& f) {
#pragma unroll
    for (int round = 0; round < Rounds; ++round) {
      const int column = (round * Group + lane) * Vector;
      if (column < width) f(round * Vector, column);
    }
  }

  // Values beyond the row are zero.
  template <class A, class T>
  static __device__ void load(const A* row, int lane, int width, T (&to)[kHeld]) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) to[i] = T(0);
    for_each_run(lane, width,
                 [&](int slot, int column) { load_values<Vector>(row + column, to + slot); });
  }

  // Loads value by value, because parameters may start at any address of a flat buffer.
  template <class T>
  static __device__ void load_parameters(const T* row, int lane, int width, T otherwise,
                                         T (&to)[kHeld]) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) to[i] = T(0);
    for_each_run(lane, width, [&](int slot, int column) {
#pragma unroll
      for (int i = 0; i < Vector; ++i) to[slot + i] = row ? row[column + i] : otherwise;
    });
  }

  template <class A, class T>
  static __device__ void store(const T (&from)[kHeld], A* row, int lane, int width) {
    for_each_run(lane, width,
                 [&](int slot, int column) { store_values<Vector>(row + column, from + slot); });
  }
};

template <int Group, class T>
__device__ inline T group_sum(T x) {
#pragma unroll
  for (int distance = Group / 2; distance > 0; distance /= 2)
    x += __shfl_xor_sync(kAllLanes, x, distance, Group);
  return x;
}

// The sum over a block of kThreads, valid in thread 0. A kernel may call it once.
template <class T>
__device__ inline T block_sum(T x) {
  __shared__ T sums[kThreads / 32];
  x = group_sum<32>(x);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x < kThreads / 32 ? sums[threadIdx.x] : T(0);
  return threadIdx.x < 32 ? group_sum<32>(x) : x;
}

// Sums Count values over a group of lanes and leaves each sum in one lane or a few. Halving the
// values at every exchange takes hardly more exchanges than there are values. Count and Group are
// powers of two.
template <int Group, int Count, class T>
struct SharedSums {
  static constexpr int kHeld = Count > Group ? Count / Group : 1;
  T at[Count];  // the first kHeld belong to this lane

  __device__ explicit SharedSums(const T (&values)[Count]) {
#pragma unroll
    for (int i = 0; i < Count; ++i) at[i] = values[i];
    int count = Count;
#pragma unroll
    for (int distance = Group / 2; distance > 0; distance /= 2) {
      if (count == 1) {
        at[0] += __shfl_xor_sync(kAllLanes, at[0], distance, Group);
        continue;
      }
      count /= 2;
      const bool upper = (threadIdx.x & distance) != 0;
#pragma unroll
      for (int i = 0; i < Count / 2; ++i) {
        if (i >= count) break;
        const T mine = upper ? at[i + count] : at[i], theirs = upper ? at[i] : at[i + count];
        at[i] = mine + __shfl_xor_sync(kAllLanes, theirs, distance, Group);
      }
    }
  }

  __device__ void store(T* all, int lane) const {  // lane of the group
    if constexpr (Count >= Group) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) all[lane * kHeld + i] = at[i];
    } else {
      constexpr int lanes = Group / Count;  // lanes that have the same sum
      if (lane % lanes == 0) all[lane / lanes] = at[0];
    }
  }
};

// Calls f(token, whether it exists) for the tokens of this thread's group. All lanes of a warp make
// the same number of calls, because sums over a group need all of them.
template <int Group, class F>
__device__ inline void for_each_token(int64_t tokens, F&& f) {
  const int64_t groups = static_cast<int64_t>(gridDim.x) * (blockDim.x / Group);
  const int64_t group =
      static_cast<int64_t>(blockIdx.x) * (blockDim.x / Group) + threadIdx.x / Group;
  const int64_t rounds = (tokens + groups - 1) / groups;
  for (int64_t round = 0; round < rounds; ++round) {
    const auto token = round * groups + group;
    f(std::min(token, tokens - 1), token < tokens);
  }
}

// The number of blocks, `most` at most, for a kernel whose groups of lanes go through tokens.
inline int blocks_for(int64_t tokens, int group, int most = 1 << 16) {
  const int64_t per_block = kThreads / group;
  return static_cast<int>(std::min<int64_t>((tokens + per_block - 1) / per_block, most));
}

// The sum over the groups of a warp, lane by lane.
template <int Group, class T>
__device__ inline T sum_over_groups(T x) {
#pragma unroll
  for (int distance = Group; distance < 32; distance *= 2)
    x += __shfl_xor_sync(kAllLanes, x, distance);
  return x;
}

// Adds the columns of `rows` rows that each group holds to `total` (rows, width): over a warp by
// exchange, over a block in shared memory, so that global memory gets one addition per block.
// `shared` has space for rows · width values; all threads must call.
template <class L, class T>
__device__ inline void add_columns(const T (*held)[L::kHeld], int rows, T* shared, T* total,
                                   int width) {
  const int lane = threadIdx.x % 32;
  for (int i = threadIdx.x; i < rows * width; i += blockDim.x) shared[i] = T(0);
  __syncthreads();
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    T sums[L::kHeld];
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) sums[i] = sum_over_groups<L::kGroup>(held[row][i]);
    if (lane < L::kGroup)
      L::for_each_run(lane, width, [&](int slot, int column) {
#pragma unroll
        for (int i = 0; i < L::kVector; ++i)
          atomicAdd(shared + row * width + column + i, sums[slot + i]);
      });
  }
  __syncthreads();
  for (int i = threadIdx.x; i < rows * width; i += blockDim.x) atomicAdd(total + i, shared[i]);
  __syncthreads();
}

// f(columns) with the smallest Columns that hold a row of `width`.
template <class T, class F>
void with_row(int64_t width, F&& f) {
  if constexpr (sizeof(T) == 4)  // double is for verification: one form is enough
    if (width % 4 == 0) {
      if (width <= 128)
        f(Columns<4, 32, 1>());
      else
        f(Columns<4, 32, kDeviceRow / 128>());
      return;
    }
  f(Columns<1, 32, kDeviceRow / 32>());
}

// The same for rows of up to Most values.
template <class T, int64_t Most, class F>
void with_long_row(int64_t width, F&& f) {
  if (width <= kDeviceRow) return with_row<T>(width, f);
  if constexpr (sizeof(T) == 4)
    if (width % 4 == 0) return f(Columns<4, 32, Most / 128>());
  f(Columns<1, 32, Most / 32>());
}

}  // namespace geores::kernels::device
