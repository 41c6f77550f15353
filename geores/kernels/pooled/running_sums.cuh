// Running sums along a sequence, for the kernels that make summaries of tokens.
#pragma once

#include "geores/kernels/streams/streams.cuh"

namespace geores::kernels::device {

inline constexpr int kScanThreads = 512, kScanWarps = kScanThreads / 32;

// Running sums along a sequence. A block goes through the sequence with one token for each group of
// lanes at a time. It sums within a warp by exchange, and over the warps with one thread for each
// column.
template <int N, class L, class T>
class RunningSums {
 public:
  static size_t bytes(int64_t width) {
    return static_cast<size_t>((2 * kScanWarps + 1) * width) * sizeof(T);
  }

  __device__ RunningSums(unsigned char* memory, int d)
      : d_(d), sums_(reinterpret_cast<T*>(memory)), carry_(sums_ + 2 * kScanWarps * N * d) {
    for (int i = threadIdx.x; i < N * d_; i += kScanThreads) carry_[i] = T(0);
  }

  // Turns a token's values and `more` into their sums up to this token. All threads must call;
  // missing tokens count as zeros.
  __device__ void add(Token<N, L, T>& v, T& more) {
    __shared__ T more_sums[2][kScanWarps];
    const int warp = threadIdx.x / 32, thread = threadIdx.x % 32, lane = thread % L::kGroup;
    const int width = N * d_;
    T* sums = sums_ + turn_ * kScanWarps * width;
    T* others = more_sums[turn_];
    turn_ ^= 1;  // the next sums are written while these are still read
    v.for_each([&](int i, int c) { v.at[i][c] = sum_up(v.at[i][c]); });
    more = sum_up(more);
    if (thread >= 32 - L::kGroup) v.store(sums + warp * width, lane, d_);
    if (thread == 31) others[warp] = more;
    __syncthreads();
    for (int i = threadIdx.x; i < width; i += kScanThreads) {
      T parts[kScanWarps], running = carry_[i];
#pragma unroll
      for (int w = 0; w < kScanWarps; ++w) parts[w] = sums[w * width + i];
#pragma unroll
      for (int w = 0; w < kScanWarps; ++w) {
        sums[w * width + i] = running;
        running += parts[w];
      }
      carry_[i] = running;
    }
    __syncthreads();
    Token<N, L, T> before;
    before.load(sums + warp * width, lane, d_);
    v.for_each([&](int i, int c) { v.at[i][c] += before.at[i][c]; });
    more += more_before_;
#pragma unroll
    for (int w = 0; w < kScanWarps; ++w) {
      if (w < warp) more += others[w];
      more_before_ += others[w];
    }
  }

 private:
  static __device__ T sum_up(T x) {  // over the groups of a warp
#pragma unroll
    for (int distance = L::kGroup; distance < 32; distance *= 2) {
      const T before = __shfl_up_sync(kAllLanes, x, distance);
      if (static_cast<int>(threadIdx.x % 32) >= distance) x += before;
    }
    return x;
  }

  int d_, turn_ = 0;
  T *sums_, *carry_;  // 2 × (warps, width), (width)
  T more_before_ = 0;
};

}  // namespace geores::kernels::device
