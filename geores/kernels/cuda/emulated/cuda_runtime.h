// CUDA's runtime on a CPU, as far as the kernels need it that tests run without a GPU: a .cu file
// compiles as C++ with this folder before CUDA's own. Blocks run one after the other; each thread of a
// block is a fiber, which runs until it has to wait for its warp or its block. Shared memory starts as
// NaN. Threads that wait for each other forever, and writing behind the end of shared memory, end the
// program.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __grid_constant__

struct dim3 {
  unsigned x, y, z;
  explicit dim3(unsigned along = 1) : x(along), y(1), z(1) {}
};
inline dim3 gridDim, blockDim, blockIdx(0), threadIdx(0);

namespace emulated {

[[noreturn]] inline void end(const char* why) {
  std::fprintf(stderr, "emulated kernel: %s (block %u)\n", why, blockIdx.x);
  std::abort();
}

// The threads of one block.
class Block {
 public:
  Block(unsigned threads, size_t shared_bytes, const std::function<void()>& kernel)
      : kernel_(kernel),
        fibers_(threads),
        warps_((threads + kWarp - 1) / kWarp),
        slots_(threads),
        operands_(threads) {
    shared_.assign(shared_bytes + 2 * kAlignment, kUnwritten);
    const auto begin = reinterpret_cast<uintptr_t>(shared_.data());
    shared = shared_.data() + ((kAlignment - begin % kAlignment) % kAlignment);
    shared_end_ = shared + shared_bytes;
  }

  void run() {
    current = this;
    for (bool some = true; some;) {
      some = false;
      const auto before = steps_;
      for (unsigned i = 0; i < fibers_.size(); ++i) {
        if (fibers_[i].state == State::done) continue;
        some = true;
        threadIdx.x = i;
        resume(fibers_[i], i);
      }
      if (some && steps_ == before) end("threads wait for each other");
    }
    if (*shared_end_ != kUnwritten) end("wrote past the end of shared memory");
  }

  void meet_block() { meet(all_, static_cast<unsigned>(fibers_.size())); }

  // Some threads of the block meet, as many as `threads`, by a number that they share.
  void meet_some(unsigned number, unsigned threads) { meet(named_.at(number), threads); }

  // Addresses in shared memory as numbers. None is aligned to more than a GPU aligns it to.
  uint32_t address_of(const void* pointer) const {
    const auto* at = static_cast<const unsigned char*>(pointer);
    if (at < shared || at >= shared_end_) end("takes an address outside of its shared memory");
    return static_cast<uint32_t>(at - shared) + kAlignment;
  }
  unsigned char* at(uint32_t address) const { return shared + address - kAlignment; }

  // The value of the lane `from` of this warp.
  template <class T>
  T exchange(T value, unsigned from) {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    const auto me = threadIdx.x, first = me / kWarp * kWarp;
    const auto lanes = std::min<unsigned>(kWarp, static_cast<unsigned>(fibers_.size()) - first);
    std::memcpy(&slots_[me], &value, sizeof(T));
    meet(warps_[me / kWarp], lanes);
    T other;
    std::memcpy(&other, &slots_[first + from], sizeof(T));
    meet(warps_[me / kWarp], lanes);
    return other;
  }

  // A matrix instruction of this warp (cuda/tf32.cuh): c += the product of all lanes' a and b.
  void multiply_add_tf32(float (&c)[4], const std::array<uint32_t, 6>& mine) {
    const auto me = threadIdx.x, first = me / kWarp * kWarp, g = me % kWarp / 4, t = me % 4;
    operands_[me] = mine;
    meet(warps_[me / kWarp], kWarp);
    for (unsigned i = 0; i < 4; ++i) {
      const auto row = g + i / 2 * 8, column = 2 * t + i % 2;
      for (unsigned k = 0; k < 8; ++k)
        c[i] += tf32(operands_[first + row % 8 * 4 + k % 4][row / 8 + k / 4 * 2]) *
                tf32(operands_[first + column * 4 + k % 4][4 + k / 4]);
    }
    meet(warps_[me / kWarp], kWarp);
  }

  // The same with pairs of bfloat16 factors (cuda/matrix.cuh).
  void multiply_add_bfloat16(float (&c)[4], const std::array<uint32_t, 6>& mine) {
    const auto me = threadIdx.x, first = me / kWarp * kWarp, g = me % kWarp / 4, t = me % 4;
    operands_[me] = mine;
    meet(warps_[me / kWarp], kWarp);
    for (unsigned i = 0; i < 4; ++i) {
      const auto row = g + i / 2 * 8, column = 2 * t + i % 2;
      for (unsigned k = 0; k < 16; ++k)
        c[i] += half(operands_[first + row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k % 2) *
                half(operands_[first + column * 4 + k % 8 / 2][4 + k / 8], k % 2);
    }
    meet(warps_[me / kWarp], kWarp);
  }

  // Four 8 × 8 matrices of 16-bit values, of which this lane gives the address of one row.
  void load_matrices(uint32_t (&to)[4], const void* row, bool transposed) {
    const auto lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
      uint16_t two[2];
      for (unsigned i = 0; i < 2; ++i) {
        const auto* from =
            static_cast<const uint16_t*>(exchange(row, 8 * matrix + (transposed ? 2 * t + i : g)));
        two[i] = from[transposed ? g : 2 * t + i];
      }
      std::memcpy(&to[matrix], two, sizeof(two));
    }
  }

  // The same in the other direction.
  void store_matrices(void* row, const uint32_t (&from)[4]) {
    const auto lane = threadIdx.x % kWarp, g = lane / 4, t = lane % 4;
    for (unsigned matrix = 0; matrix < 4; ++matrix)
      std::memcpy(static_cast<uint16_t*>(exchange(row, 8 * matrix + g)) + 2 * t, &from[matrix],
                  sizeof(uint32_t));
    meet(warps_[threadIdx.x / kWarp], kWarp);
  }

  // A factor of a product of 64 rows by four warps (cuda/warpgroup.cuh): in shared memory, as its
  // descriptor says, or in the registers of all lanes.
  struct Factor {
    uint64_t descriptor = 0;
    bool turned = false;  // whether its lines run along the result, not along the sum
    const uint32_t* registers = nullptr;  // four of each lane; instead of the descriptor
  };

  // c += a · b, with Values of the 64 rows in each lane.
  template <size_t Values>
  void multiply_add_rows(float (&c)[Values], const Factor& a, const Factor& b) {
    constexpr unsigned kThreads = 4 * kWarp;
    const auto me = threadIdx.x, first = me / kThreads * kThreads, g = me % kWarp / 4, t = me % 4;
    auto& all = warpgroups_.at(me / kThreads);
    if (a.registers) std::copy_n(a.registers, 4, operands_[me].begin());
    meet(all, kThreads);
    for (unsigned i = 0; i < Values; ++i) {
      const auto row = me % kThreads / kWarp * 16 + g + i / 2 % 2 * 8,
                 column = i / 4 * 8 + 2 * t + i % 2;
      for (unsigned k = 0; k < 16; ++k) {
        const auto& held =
            operands_[first + row / 16 * kWarp + row % 8 * 4 + k % 8 / 2][row % 16 / 8 + k / 8 * 2];
        c[i] += (a.registers ? half(held, k % 2) : value(a, row, k)) * value(b, column, k);
      }
    }
    meet(all, kThreads);
  }

  static inline Block* current = nullptr;
  unsigned char* shared;

 private:
  static constexpr unsigned kWarp = 32;
  static constexpr size_t kStack = 64 * 1024, kAlignment = 16;
  static constexpr unsigned char kUnwritten = 0xff;  // as a number: NaN

  enum class State { fresh, waits, done };
  struct Fiber {
    jmp_buf context;
    State state = State::fresh;
  };
  struct Meeting {
    unsigned there = 0;
    int64_t number = 0;
  };

  static float tf32(uint32_t bits) {
    bits &= 0xffffe000u;
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    return x;
  }

  static float half(uint32_t pair, unsigned which) {
    const auto bits = which == 0 ? pair << 16 : pair & 0xffff0000u;
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    return x;
  }

  // Value k of row r of a factor in swizzled lines of 128 or 64 bytes.
  float value(const Factor& factor, unsigned r, unsigned k) const {
    const auto bits = [&](int first) {
      return static_cast<uint32_t>(factor.descriptor >> first & 0x3fff) << 4;
    };
    const uint32_t line = factor.descriptor >> 62 == 1 ? 128 : 64, values = line / 2;
    const auto lines = [&](unsigned i) { return i / 8 * bits(32) + i % 8 * line; };
    auto address = bits(0) + (factor.turned ? lines(k) + r % values * 2 + r / values * bits(16)
                                            : lines(r) + 2 * k);
    address ^= (address >> 7 & (line == 128 ? 7 : 3)) << 4;
    if (at(address) < shared || at(address) >= shared_end_)
      end("multiplies outside of its shared memory");
    uint16_t word;
    std::memcpy(&word, at(address), sizeof(word));
    return half(word, 0);
  }

  // Runs a thread until it waits or ends. Jumps between stacks need no call of the system, which
  // swapcontext makes twice.
  void resume(Fiber& fiber, unsigned thread) {
    if (_setjmp(scheduler_) != 0) return;
    if (fiber.state == State::waits) _longjmp(fiber.context, 1);
    ucontext_t start;
    getcontext(&start);
    start.uc_stack.ss_sp = stack(thread);
    start.uc_stack.ss_size = kStack;
    start.uc_link = nullptr;
    makecontext(&start, &Block::run_thread, 0);
    setcontext(&start);
  }
  void wait(Fiber& fiber) {
    fiber.state = State::waits;
    if (_setjmp(fiber.context) == 0) _longjmp(scheduler_, 1);
  }

  // One for each thread, the same for all blocks.
  static char* stack(unsigned thread) {
    static std::vector<std::unique_ptr<char[]>> stacks;
    while (stacks.size() <= thread) stacks.emplace_back(new char[kStack]);
    return stacks[thread].get();
  }

  static void run_thread() {
    auto& block = *current;
    const auto me = threadIdx.x;
    block.kernel_();
    block.fibers_[me].state = State::done;
    ++block.steps_;
    _longjmp(block.scheduler_, 1);
  }

  void meet(Meeting& meeting, unsigned wanted) {
    const auto me = threadIdx.x;
    ++steps_;
    const auto number = meeting.number;
    if (++meeting.there == wanted) {
      meeting.there = 0;
      ++meeting.number;
      return;
    }
    while (meeting.number == number) wait(fibers_[me]);
    ++steps_;
  }

  std::function<void()> kernel_;
  std::vector<Fiber> fibers_;
  std::vector<Meeting> warps_;
  Meeting all_;
  std::array<Meeting, 16> named_;
  std::array<Meeting, 8> warpgroups_;
  std::vector<uint64_t> slots_;
  std::vector<std::array<uint32_t, 6>> operands_;
  std::vector<unsigned char> shared_;
  unsigned char* shared_end_;
  jmp_buf scheduler_;
  int64_t steps_ = 0;
};

}  // namespace emulated

inline void __syncthreads() { emulated::Block::current->meet_block(); }
template <class T>
T __shfl_xor_sync(unsigned, T value, unsigned distance, int = 32) {
  return emulated::Block::current->exchange(value, threadIdx.x % 32 ^ distance);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned distance) {
  const auto lane = threadIdx.x % 32;
  return emulated::Block::current->exchange(value, lane >= distance ? lane - distance : lane);
}
template <class T>
T __shfl_sync(unsigned, T value, int from, int width = 32) {
  const auto lane = threadIdx.x % 32, group = static_cast<unsigned>(width);
  return emulated::Block::current->exchange(
      value, lane / group * group + static_cast<unsigned>(from) % group);
}
template <class T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to += value;
  return before;
}

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) ushort4 {
  unsigned short x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z,
                            unsigned short w) {
  return {x, y, z, w};
}
inline float __uint_as_float(unsigned bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
inline unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline size_t __cvta_generic_to_shared(const void* pointer) {
  return emulated::Block::current->address_of(pointer);
}
[[noreturn]] inline void __trap() { emulated::end("trap"); }
using std::max;
using std::min;

enum cudaError_t { cudaSuccess };
// One multiprocessor, so that blocks go through several rounds, of an H100.
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
  cudaDevAttrMultiProcessorCount
};
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  *value = which == cudaDevAttrComputeCapabilityMajor   ? 9
           : which == cudaDevAttrComputeCapabilityMinor ? 0
                                                        : 1;
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return ""; }
inline void cudaMemsetAsync(void* to, int value, size_t bytes, void*) {
  std::memset(to, value, bytes);
}
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
template <class F>
void cudaFuncSetAttribute(F, cudaFuncAttribute, int bytes) {
  if (bytes > 227 * 1024) emulated::end("asks for more shared memory than a block can have");
}
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  void* stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  int numAttrs = 0;
};
template <class... Parameters, class... Arguments>
void cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                        Arguments... arguments) {
  gridDim = config->gridDim;
  blockDim = config->blockDim;
  if (gridDim.x == 0 || blockDim.x == 0 || blockDim.x > 1024) emulated::end("a grid of this size");
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x)
    emulated::Block(blockDim.x, config->dynamicSmemBytes, [&] { kernel(arguments...); }).run();
}
