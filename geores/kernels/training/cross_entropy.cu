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

// Over a block of Threads, the same in all of them.
template <int Threads, class T>
__device__ inline T log_sum_of_block(LogSum<T> mine) {
  __shared__ T largest[Threads / 32], sums[Threads / 32];
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
    for (int i = 0; i < Threads / 32; ++i) {
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

template <int V, class T, class L, class A>
__global__ void rows_kernel(const L* logits, const int64_t* targets, const T* count, T* losses,
                            A* gradients, int64_t gradient_row, int64_t rows, int64_t vocabulary) {
  wait_for_previous();
  const int64_t first = static_cast<int64_t>(threadIdx.x) * V, stride = kRowThreads * V;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const L* x = logits + row * vocabulary;
    LogSum<T> mine;
    for (int64_t i = first; i < vocabulary; i += stride) {
      T v[V];
      load_values<V>(x + i, v);
#pragma unroll
      for (int j = 0; j < V; ++j) mine.add(v[j]);
    }
    const T log_sum = log_sum_of_block<kRowThreads>(mine);
    const int64_t target = targets[row];
    if (threadIdx.x == 0) losses[row] = target >= 0 ? log_sum - number(x[target]) : T(0);
    if (!gradients) continue;
    const T weight = target >= 0 ? T(1) / *count : T(0);
    for (int64_t i = first; i < vocabulary; i += stride) {
      T v[V];
      load_values<V>(x + i, v);
#pragma unroll
      for (int j = 0; j < V; ++j)
        v[j] = weight * (exp(v[j] - log_sum) - (i + j == target ? T(1) : T(0)));
      store_values<V>(gradients + row * gradient_row + i, v);
    }
  }
}

template <class L>
inline constexpr int kHeldThreads = 256 * sizeof(L);  // 1024 on a multiprocessor

__device__ inline float quick_exp(float x) {
#ifdef GEORES_EMULATED
  return std::exp(x);
#else
  return __expf(x);
#endif
}

// Asks for a row that is read next, while the one before is written; from Hopper on.
template <class L>
__device__ inline void prefetch_row(const L* row, int values) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const int part = (values / 32 + 7) / 8 * 8, begin = static_cast<int>(threadIdx.x) * part;
  if (threadIdx.x >= 32 || begin >= values) return;
  const int bytes = static_cast<int>(sizeof(L)) * min(part, values - begin);
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(row + begin), "r"(bytes)
               : "memory");
#endif
}

// Rows that fit shared memory. A thread reads its own values there; all values of a row are
// there before the first gradient is written.
template <class L, class A>
__global__ void __launch_bounds__(kHeldThreads<L>, 1024 / kHeldThreads<L>)
    held_rows_kernel(const L* logits, const int64_t* targets, const float* count, float* losses,
                     A* gradients, int64_t gradient_row, int64_t rows, int vocabulary) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  auto* held = reinterpret_cast<L*>(memory);
  constexpr int V = 16 / sizeof(L), kAtOnce = 4, kStride = kHeldThreads<L> * V;
  const int first = static_cast<int>(threadIdx.x) * V;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const L* x = logits + row * vocabulary;
    LogSum<float> mine;
    for (int begin = first; begin < vocabulary; begin += kAtOnce * kStride) {
      float v[kAtOnce][V];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k)
        if (begin + k * kStride < vocabulary) load_values<V>(x + begin + k * kStride, v[k]);
      float most = mine.largest;
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k)
        if (begin + k * kStride < vocabulary) {
          store_values<V>(held + begin + k * kStride, v[k]);
#pragma unroll
          for (int j = 0; j < V; ++j) most = v[k][j] > most ? v[k][j] : most;
        }
      float sum = mine.sum * quick_exp(mine.largest - most);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k)
        if (begin + k * kStride < vocabulary) {
#pragma unroll
          for (int j = 0; j < V; ++j) sum += quick_exp(v[k][j] - most);
        }
      mine.largest = most, mine.sum = sum;
    }
    const float log_sum = log_sum_of_block<kHeldThreads<L>>(mine);
    if (row + gridDim.x < rows)
      prefetch_row(x + static_cast<int64_t>(gridDim.x) * vocabulary, vocabulary);
    const int64_t target = targets[row];
    if (target >= 0 ? target % kStride / V == threadIdx.x : threadIdx.x == 0)
      losses[row] = target >= 0 ? log_sum - number(held[target]) : 0.f;
    if (!gradients) continue;
    const float weight = target >= 0 ? 1.f / *count : 0.f;
#pragma unroll 4
    for (int i = first; i < vocabulary; i += kStride) {
      float v[V];
      load_values<V>(held + i, v);
#pragma unroll
      for (int j = 0; j < V; ++j)
        v[j] = weight * (quick_exp(v[j] - log_sum) - (i + j == target ? 1.f : 0.f));
      store_values<V>(gradients + row * gradient_row + i, v);
    }
  }
}

template <int V, class T>
__global__ void add_scaled_kernel(const T* x, const T* factor, T* sum, int64_t size) {
  wait_for_previous();
  const auto at = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  if (at >= size) return;
  const T scale = *factor;
  T v[V], total[V];
  load_values<V>(x + at, v);
  load_values<V>(sum + at, total);
#pragma unroll
  for (int i = 0; i < V; ++i) total[i] += scale * v[i];
  store_values<V>(sum + at, total);
}

}  // namespace

template <class T, class L, class A>
void cross_entropy_rows(CudaStream stream, const L* logits, const int64_t* targets, const T* count,
                        T* losses, A* gradients, int64_t gradient_row, int64_t rows,
                        int64_t vocabulary) {
  if (rows == 0) return;
  const Grid grid{std::min<int64_t>(rows, 1 << 15), kRowThreads};
  if constexpr (sizeof(T) == 4)
    if (holds_logits(vocabulary, sizeof(L))) {
      constexpr int threads = kHeldThreads<L>, at_once = 1024 / threads;
      launch(
          stream,
          {std::min<int64_t>(rows, at_once * multiprocessors()), threads, vocabulary * sizeof(L)},
          held_rows_kernel<L, A>, logits, targets, count, losses, gradients, gradient_row, rows,
          static_cast<int>(vocabulary));
      return check_launch("cross_entropy_rows");
    }
  if (sizeof(T) == 4 && vocabulary % 4 == 0)
    launch(stream, grid, rows_kernel<4, T, L, A>, logits, targets, count, losses, gradients,
           gradient_row, rows, vocabulary);
  else
    launch(stream, grid, rows_kernel<1, T, L, A>, logits, targets, count, losses, gradients,
           gradient_row, rows, vocabulary);
  check_launch("cross_entropy_rows");
}

template <class T>
void add_scaled(CudaStream stream, const T* x, const T* factor, T* sum, int64_t size) {
  if (size == 0) return;
  const auto blocks = [](int64_t pieces) { return (pieces + kThreads - 1) / kThreads; };
  const auto addresses = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(sum);
  if (sizeof(T) == 4 && size % 4 == 0 && addresses % 16 == 0)
    launch(stream, {blocks(size / 4), kThreads}, add_scaled_kernel<4, T>, x, factor, sum, size);
  else
    launch(stream, {blocks(size), kThreads}, add_scaled_kernel<1, T>, x, factor, sum, size);
  check_launch("add_scaled");
}

#define GEORES_INSTANTIATE(T, L, A)                                                        \
  template void cross_entropy_rows(CudaStream, const L*, const int64_t*, const T*, T*, A*, \
                                   int64_t, int64_t, int64_t);
GEORES_INSTANTIATE(float, float, float)
GEORES_INSTANTIATE(float, float, BFloat16)
GEORES_INSTANTIATE(float, BFloat16, BFloat16)
GEORES_INSTANTIATE(double, double, double)
#undef GEORES_INSTANTIATE
template void add_scaled(CudaStream, const float*, const float*, float*, int64_t);
template void add_scaled(CudaStream, const double*, const double*, double*, int64_t);

}  // namespace geores::kernels
