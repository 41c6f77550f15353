#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/norms/norm.h"

namespace geores::kernels {
namespace {

using namespace device;

template <class L, class T, class A>
__global__ void forward(const T* x, Norm<T> norm, A* y, RowStatistics<T>* statistics, int64_t rows,
                        int width, const A* branch, T* sum) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup;
  T weight[L::kHeld], bias[L::kHeld];
  L::load_parameters(norm.weight, lane, width, T(1), weight);
  L::load_parameters(norm.bias, lane, width, T(0), bias);
  for_each_token<L::kGroup>(rows, [&](int64_t row, bool there) {
    T v[L::kHeld];
    L::load(x + row * width, lane, width, v);
    if (branch) {
      T added[L::kHeld];
      L::load(branch + row * width, lane, width, added);
#pragma unroll
      for (int i = 0; i < L::kHeld; ++i) v[i] += added[i];
      if (there) L::store(v, sum + row * width, lane, width);
    }
    T mean = 0;
    if (norm.kind == NormKind::layer) {
#pragma unroll
      for (int i = 0; i < L::kHeld; ++i) mean += v[i];
      mean = group_sum<L::kGroup>(mean) / T(width);
    }
    T squares = 0;
    L::for_each_run(lane, width, [&](int slot, int) {
#pragma unroll
      for (int i = 0; i < L::kVector; ++i) {
        v[slot + i] -= mean;
        squares += v[slot + i] * v[slot + i];
      }
    });
    const T inverse = T(1) / sqrt(group_sum<L::kGroup>(squares) / T(width) + norm.eps);
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) v[i] = v[i] * inverse * weight[i] + bias[i];
    if (!there) return;
    L::store(v, y + row * width, lane, width);
    if (statistics && lane == 0) statistics[row] = {mean, inverse};
  });
}

template <class L, class T, class A>
__global__ void backward(const T* x, const RowStatistics<T>* statistics, Norm<T> norm, const A* dy,
                         const T* skip, T* dx, T* dweight, T* dbias, int64_t rows, int width,
                         A* dbranch) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const int lane = threadIdx.x % L::kGroup;
  T weight[L::kHeld], dweight_here[L::kHeld] = {}, dbias_here[L::kHeld] = {};
  L::load_parameters(norm.weight, lane, width, T(1), weight);
  for_each_token<L::kGroup>(rows, [&](int64_t row, bool there) {
    const auto s = statistics[row];
    T z[L::kHeld], g[L::kHeld], around[L::kHeld] = {};
    L::load(x + row * width, lane, width, z);
    L::load(dy + row * width, lane, width, g);
    if (skip)
      // Loaded early, so that all loads are in flight at once.
      L::load(skip + row * width, lane, width, around);
    T sum_g = 0, sum_gz = 0;
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) {  // g is 0 beyond the row
      z[i] = (z[i] - s.mean) * s.inverse;
      if (there) {
        dweight_here[i] += g[i] * z[i];
        dbias_here[i] += g[i];
      }
      g[i] *= weight[i];
      sum_g += g[i];
      sum_gz += g[i] * z[i];
    }
    sum_g = norm.kind == NormKind::layer ? group_sum<L::kGroup>(sum_g) / T(width) : T(0);
    sum_gz = group_sum<L::kGroup>(sum_gz) / T(width);
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i)
      g[i] = around[i] + s.inverse * (g[i] - sum_g - z[i] * sum_gz);
    if (!there) return;
    L::store(g, dx + row * width, lane, width);
    if (dbranch) L::store(g, dbranch + row * width, lane, width);
  });
  if (dweight) add_columns<L>(&dweight_here, 1, reinterpret_cast<T*>(memory), dweight, width);
  if (dbias) add_columns<L>(&dbias_here, 1, reinterpret_cast<T*>(memory), dbias, width);
}

// Rows of more than 512 values without a bias. A warp has a row; weights, and the sums of their
// gradients, are in shared memory, so that registers allow enough rows on their way at once.
template <class L>
inline constexpr int kLongBlocks = L::kHeld <= 24 ? 3 : 2;  // on a multiprocessor, forward
inline constexpr int kRowsAtOnce = kThreads / 32;

// f(row) for the rows of this warp.
template <class F>
__device__ inline void for_each_row(int64_t rows, F&& f) {
  for (auto row = static_cast<int64_t>(blockIdx.x) * kRowsAtOnce + threadIdx.x / 32; row < rows;
       row += static_cast<int64_t>(gridDim.x) * kRowsAtOnce)
    f(row);
}

__device__ inline void stage_weight(const float* from, float* to, int width) {
  for (int i = threadIdx.x; i < width; i += kThreads) to[i] = from ? from[i] : 1.f;
  __syncthreads();
}

template <class L, class A>
__global__ void __launch_bounds__(kThreads, kLongBlocks<L>)
    forward_long(const float* x, Norm<float> norm, A* y, RowStatistics<float>* statistics,
                 int64_t rows, int width, const A* branch, float* sum) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  auto* weight = reinterpret_cast<float*>(memory);
  stage_weight(norm.weight, weight, width);
  const int lane = threadIdx.x % 32;
  for_each_row(rows, [&](int64_t row) {
    float v[L::kHeld];
    L::load(x + row * width, lane, width, v);
    if (branch) {
      float added[L::kHeld];
      L::load(branch + row * width, lane, width, added);
#pragma unroll
      for (int i = 0; i < L::kHeld; ++i) v[i] += added[i];
      L::store(v, sum + row * width, lane, width);
    }
    float mean = 0, squares = 0;
    if (norm.kind == NormKind::layer) {
#pragma unroll
      for (int i = 0; i < L::kHeld; ++i) mean += v[i];
      mean = group_sum<32>(mean) / static_cast<float>(width);
    }
    L::for_each_run(lane, width, [&](int slot, int) {
#pragma unroll
      for (int i = 0; i < L::kVector; ++i) {
        v[slot + i] -= mean;
        squares += v[slot + i] * v[slot + i];
      }
    });
    const float inverse = 1.f / sqrt(group_sum<32>(squares) / static_cast<float>(width) + norm.eps);
    L::for_each_run(lane, width, [&](int slot, int column) {
      float w[L::kVector];
      load_values<L::kVector>(weight + column, w);
#pragma unroll
      for (int i = 0; i < L::kVector; ++i) v[slot + i] *= inverse * w[i];
    });
    L::store(v, y + row * width, lane, width);
    if (statistics && lane == 0) statistics[row] = {mean, inverse};
  });
}

template <class L, class A>
__global__ void __launch_bounds__(kThreads, 2)
    backward_long(const float* x, const RowStatistics<float>* statistics, Norm<float> norm,
                  const A* dy, const float* skip, float* dx, float* dweight, int64_t rows,
                  int width, A* dbranch) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  auto* weight = reinterpret_cast<float*>(memory);
  const int lane = threadIdx.x % 32;
  // This warp's sums: each lane has its own of them.
  float *all_sums = weight + width, *sums = all_sums + threadIdx.x / 32 * width;
  L::for_each_run(lane, width, [&](int, int column) {
    const float zeros[L::kVector] = {};
    store_values<L::kVector>(sums + column, zeros);
  });
  stage_weight(norm.weight, weight, width);
  for_each_row(rows, [&](int64_t row) {
    const auto s = statistics[row];
    float z[L::kHeld], g[L::kHeld], around[L::kHeld] = {};
    L::load(x + row * width, lane, width, z);
    L::load(dy + row * width, lane, width, g);
    if (skip) L::load(skip + row * width, lane, width, around);
    float sum_g = 0, sum_gz = 0;
    L::for_each_run(lane, width, [&](int slot, int column) {
      float w[L::kVector], total[L::kVector];
      load_values<L::kVector>(weight + column, w);
      load_values<L::kVector>(sums + column, total);
#pragma unroll
      for (int i = 0; i < L::kVector; ++i) {
        const float normal = (z[slot + i] - s.mean) * s.inverse;
        total[i] += g[slot + i] * normal;
        g[slot + i] *= w[i];
        sum_g += g[slot + i];
        sum_gz += g[slot + i] * normal;
        z[slot + i] = normal;
      }
      store_values<L::kVector>(sums + column, total);
    });
    sum_g = norm.kind == NormKind::layer ? group_sum<32>(sum_g) / static_cast<float>(width) : 0.f;
    sum_gz = group_sum<32>(sum_gz) / static_cast<float>(width);
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i)
      g[i] = around[i] + s.inverse * (g[i] - sum_g - z[i] * sum_gz);
    L::store(g, dx + row * width, lane, width);
    if (dbranch) L::store(g, dbranch + row * width, lane, width);
  });
  __syncthreads();
  if (!dweight) return;
  for (int i = threadIdx.x; i < width; i += kThreads) {
    float sum = 0;
    for (int w = 0; w < kRowsAtOnce; ++w) sum += all_sums[w * width + i];
    atomicAdd(dweight + i, sum);
  }
}

// f(columns) for rows that the two kernels above take; false: none.
template <class T, class F>
bool with_very_long_row(int64_t width, bool biased, F&& f) {
  if constexpr (sizeof(T) == 4)
    if (!biased && width % 4 == 0 && width > kDeviceRow && width <= kNormRow) {
      if (width <= 768)
        f(Columns<4, 32, 6>());
      else
        f(Columns<4, 32, kNormRow / 128>());
      return true;
    }
  return false;
}

int64_t long_blocks(int64_t rows, int at_once) {  // at_once: on a multiprocessor
  return std::min<int64_t>((rows + kRowsAtOnce - 1) / kRowsAtOnce, at_once * multiprocessors());
}

}  // namespace

template <class T, class A>
void norm_forward(CudaStream stream, const T* x, const Norm<T>& norm, A* y,
                  RowStatistics<T>* statistics, int64_t rows, int64_t width, const A* branch,
                  T* sum) {
  if (rows == 0) return;
  const bool is_long = with_very_long_row<T>(width, norm.bias != nullptr, [&]<class L>(L) {
    if constexpr (sizeof(T) == 4)
      launch(stream, {long_blocks(rows, kLongBlocks<L>), kThreads, width * sizeof(T)},
             forward_long<L, A>, x, norm, y, statistics, rows, static_cast<int>(width), branch,
             sum);
  });
  if (is_long) return check_launch("norm_forward");
  with_long_row<T, kNormRow>(width, [&]<class L>(L) {
    launch(stream, {blocks_for(rows, L::kGroup), kThreads}, forward<L, T, A>, x, norm, y,
           statistics, rows, static_cast<int>(width), branch, sum);
  });
  check_launch("norm_forward");
}

template <class T, class A>
void norm_backward(CudaStream stream, const T* x, const RowStatistics<T>* statistics,
                   const Norm<T>& norm, const A* dy, const T* skip, T* dx, T* dweight, T* dbias,
                   int64_t rows, int64_t width, A* dbranch) {
  if (rows == 0) return;
  const bool is_long = with_very_long_row<T>(width, dbias != nullptr, [&]<class L>(L) {
    if constexpr (sizeof(T) == 4)
      launch(stream, {long_blocks(rows, 2), kThreads, (1 + kRowsAtOnce) * width * sizeof(T)},
             backward_long<L, A>, x, statistics, norm, dy, skip, dx, dweight, rows,
             static_cast<int>(width), dbranch);
  });
  if (is_long) return check_launch("norm_backward");
  with_long_row<T, kNormRow>(width, [&]<class L>(L) {
    // Each block adds its sums to global memory at the end. Long rows get fewer blocks, so that
    // there are fewer additions.
    const auto blocks =
        blocks_for(rows, L::kGroup, L::kHeld > 4 ? blocks_for_sums() : 2 * blocks_for_sums());
    launch(stream, {blocks, kThreads, width * sizeof(T)}, backward<L, T, A>, x, statistics, norm,
           dy, skip, dx, dweight, dbias, rows, static_cast<int>(width), dbranch);
  });
  check_launch("norm_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                                   \
  template void norm_forward(CudaStream, const T*, const Norm<T>&, A*, RowStatistics<T>*, int64_t, \
                             int64_t, const A*, T*);                                               \
  template void norm_backward(CudaStream, const T*, const RowStatistics<T>*, const Norm<T>&,       \
                              const A*, const T*, T*, T*, T*, int64_t, int64_t, A*);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
