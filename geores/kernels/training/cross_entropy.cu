#include "geores/kernels/training/cross_entropy.h"

#include <type_traits>

#include "geores/kernels/cuda/device.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kRowThreads = 512;

// max and Σ e^{x − max} of the values seen so far.
template <class T>
struct LogSum {
  T largest = -INFINITY, sum = 0;

  __device__ void add(T x) {
    if (x > largest) {
      sum = sum * exp(largest - x) + T(1);
      largest = x;
    } else {
      sum += exp(x - largest);
    }
  }
  __device__ void add(const LogSum& other) {
    if (other.largest == -INFINITY) return;
    const T common = largest > other.largest ? largest : other.largest;
    sum = sum * exp(largest - common) + other.sum * exp(other.largest - common);
    largest = common;
  }
  __device__ T value() const { return largest + log(sum); }
};

// Over the block, the same in all threads.
template <class T>
__device__ inline T log_sum_of_block(LogSum<T> mine) {
  __shared__ T largest[kRowThreads / 32], sums[kRowThreads / 32];
  __shared__ T result;
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    LogSum<T> other;
    other.largest = __shfl_xor_sync(kAllLanes, mine.largest, distance);
    other.sum = __shfl_xor_sync(kAllLanes, mine.sum, distance);
    mine.add(other);
  }
  if (threadIdx.x % 32 == 0) {
    largest[threadIdx.x / 32] = mine.largest;
    sums[threadIdx.x / 32] = mine.sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    LogSum<T> all;
    for (int i = 0; i < kRowThreads / 32; ++i) {
      LogSum<T> part;
      part.largest = largest[i], part.sum = sums[i];
      all.add(part);
    }
    result = all.value();
  }
  __syncthreads();
  const T answer = result;
  __syncthreads();  // before the next row writes to it
  return answer;
}

template <int V, class T, class A>
__global__ void rows_kernel(const T* logits, const int64_t* targets, const T* count, T* losses,
                            A* gradients, int64_t rows, int64_t vocabulary) {
  wait_for_previous();
  const int64_t first = static_cast<int64_t>(threadIdx.x) * V, stride = kRowThreads * V;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* x = logits + row * vocabulary;
    LogSum<T> mine;
    for (int64_t i = first; i < vocabulary; i += stride) {
      T v[V];
      load_values<V>(x + i, v);
#pragma unroll
      for (int j = 0; j < V; ++j) mine.add(v[j]);
    }
    const T log_sum = log_sum_of_block(mine);
    const int64_t target = targets[row];
    if (threadIdx.x == 0) losses[row] = target >= 0 ? log_sum - x[target] : T(0);
    if (!gradients) continue;
    const T weight = target >= 0 ? T(1) / *count : T(0);
    for (int64_t i = first; i < vocabulary; i += stride) {
      T v[V];
      load_values<V>(x + i, v);
#pragma unroll
      for (int j = 0; j < V; ++j)
        v[j] = weight * (exp(v[j] - log_sum) - (i + j == target ? T(1) : T(0)));
      store_values<V>(gradients + row * vocabulary + i, v);
    }
  }
}

}  // namespace

template <class T, class A>
void cross_entropy_rows(CudaStream stream, const T* logits, const int64_t* targets, const T* count,
                        T* losses, A* gradients, int64_t rows, int64_t vocabulary) {
  if (rows == 0) return;
  const Grid grid{std::min<int64_t>(rows, 1 << 15), kRowThreads};
  if (sizeof(T) == 4 && vocabulary % 4 == 0)
    launch(stream, grid, rows_kernel<4, T, A>, logits, targets, count, losses, gradients, rows,
           vocabulary);
  else
    launch(stream, grid, rows_kernel<1, T, A>, logits, targets, count, losses, gradients, rows,
           vocabulary);
  check_launch("cross_entropy_rows");
}

#define GEORES_INSTANTIATE(T, A)                                                           \
  template void cross_entropy_rows(CudaStream, const T*, const int64_t*, const T*, T*, A*, \
                                   int64_t, int64_t);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
