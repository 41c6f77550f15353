#include "geores/kernels/updates/gated_update.h"

#include "geores/kernels/cuda/activations.cuh"
#include "geores/kernels/streams/wide.cuh"

namespace geores::kernels {
namespace {

using namespace device;

template <int V, class T, class A>
__global__ void __launch_bounds__(kWideBlock)
    gated_update(GatedUpdate<T, A> p, T* out, RowStatistics<T>* statistics, int width) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  // The gate's row: each lane reads only its own values, so no barrier is needed.
  T* row = reinterpret_cast<T*>(memory) + threadIdx.x / 32 * in_fours(width);
  const T alpha = p.beta ? p.alpha[0] : T(0);
  for_each_warp_token(p.rows, [&](int64_t t) {
    RowStatistics<T> s{T(0), T(1)};
    if (p.gate) {
      T sum = 0, squares = 0;
      for_each_run<V>(width, [&](int column) {
        T g[V];
        load_values<V>(p.gate + t * p.stride + column, g);
#pragma unroll
        for (int k = 0; k < V; ++k) sum += g[k];
        store_values<V>(row + column, g);
      });
      s.mean = group_sum<32>(sum) / T(width);
      for_each_run<V>(width, [&](int column) {
        T g[V];
        load_values<V>(row + column, g);
#pragma unroll
        for (int k = 0; k < V; ++k) squares += (g[k] - s.mean) * (g[k] - s.mean);
      });
      s.inverse = T(1) / sqrt(group_sum<32>(squares) / T(width) + p.norm.eps);
      if (threadIdx.x % 32 == 0) statistics[t] = s;
    }
    for_each_run<V>(width, [&](int column) {
      T x[V], y[V];
      load_values<V>(p.x + t * width + column, x);
      load_values<V>(p.v + t * width + column, y);
      if (p.gate) {
        T g[V], weight[V];
        load_values<V>(row + column, g);
        load_weight<V>(p.norm.weight, column, weight);
#pragma unroll
        for (int k = 0; k < V; ++k) y[k] *= sigmoid((g[k] - s.mean) * s.inverse * weight[k]);
      }
      T b[V];
      if (p.beta) load_values<V>(p.beta + t * p.stride + column, b);
#pragma unroll
      for (int k = 0; k < V; ++k)
        x[k] += p.beta
                    ? (p.scale * tanh(b[k] + p.bias[column + k]) + p.offset) * (y[k] - alpha * x[k])
                    : y[k];
      store_values<V>(out + t * width + column, x);
    });
  });
}

// The gradient of one row. The norm's sums need the whole row, so their terms are kept in
// `buffer`. `dweight` and `dbias` are this warp's rows of sums; all three are in shared memory.
template <int V, class T, class A>
__device__ inline void gated_row_back(const GatedUpdate<T, A>& p,
                                      const RowStatistics<T>* statistics, const T* dout,
                                      const GatedUpdateGradients<T, A>& d, int64_t t, int width,
                                      T alpha, T* buffer, T* dweight, T* dbias, T& dalpha) {
  const RowStatistics<T> s = p.gate ? statistics[t] : RowStatistics<T>{T(0), T(1)};
  T mean_g = 0, mean_gz = 0;
  for_each_run<V>(width, [&](int column) {
    const auto at = t * width + column, raw = t * p.stride + column;
    T x[V], y[V], dx[V], dy[V], open[V], z[V], weight[V];
    load_values<V>(p.x + at, x);
    load_values<V>(p.v + at, y);
    load_values<V>(dout + at, dx);
    if (p.gate) {
      load_values<V>(p.gate + raw, z);
      load_weight<V>(p.norm.weight, column, weight);
    }
#pragma unroll
    for (int k = 0; k < V; ++k) {
      dy[k] = dx[k];
      if (!p.gate) continue;
      z[k] = (z[k] - s.mean) * s.inverse;
      open[k] = sigmoid(z[k] * weight[k]);
    }
    if (p.beta) {
      T b[V], sums[V];
      load_values<V>(p.beta + raw, b);
      load_values<V>(dbias + column, sums);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const T bend = tanh(b[k] + p.bias[column + k]), beta = p.scale * bend + p.offset;
        const T step = (p.gate ? y[k] * open[k] : y[k]) - alpha * x[k];
        b[k] = dx[k] * step * p.scale * (T(1) - bend * bend);
        sums[k] += b[k];
        dalpha -= dx[k] * beta * x[k];
        dy[k] = dx[k] * beta;
        dx[k] -= dy[k] * alpha;
      }
      store_values<V>(d.beta + raw, b);
      store_values<V>(dbias + column, sums);
    }
    store_values<V>(d.x + at, dx);
    if (p.gate) {
      T sums[V];
      load_values<V>(dweight + column, sums);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const T g = dy[k] * y[k] * open[k] * (T(1) - open[k]);
        sums[k] += g * z[k];
        dy[k] *= open[k];
        y[k] = g * weight[k];
        mean_g += y[k];
        mean_gz += y[k] * z[k];
      }
      store_values<V>(dweight + column, sums);
      store_values<V>(buffer + column, y);
    }
    store_values<V>(d.v + at, dy);
  });
  if (!p.gate) return;
  mean_g = group_sum<32>(mean_g) / T(width);
  mean_gz = group_sum<32>(mean_gz) / T(width);
  for_each_run<V>(width, [&](int column) {
    T g[V], z[V];
    load_values<V>(buffer + column, g);
    load_values<V>(p.gate + t * p.stride + column, z);
#pragma unroll
    for (int k = 0; k < V; ++k)
      g[k] = s.inverse * (g[k] - mean_g - (z[k] - s.mean) * s.inverse * mean_gz);
    store_values<V>(d.gate + t * p.stride + column, g);
  });
}

template <int V, class T, class A>
__global__ void __launch_bounds__(kWideBlock)
    gated_update_back(GatedUpdate<T, A> p, const RowStatistics<T>* statistics, const T* dout,
                      GatedUpdateGradients<T, A> d, int width) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const int row = static_cast<int>(in_fours(width));
  auto* buffers = reinterpret_cast<T*>(memory);  // three times (kWideWarps, row)
  T *weights = buffers + kWideWarps * row, *biases = weights + kWideWarps * row;
  for (int i = threadIdx.x; i < kWideWarps * row; i += kWideBlock) weights[i] = biases[i] = T(0);
  __syncthreads();
  const int mine = threadIdx.x / 32 * row;
  const T alpha = p.beta ? p.alpha[0] : T(0);
  T dalpha = 0;
  for_each_warp_token(p.rows, [&](int64_t t) {
    gated_row_back<V>(p, statistics, dout, d, t, width, alpha, buffers + mine, weights + mine,
                      biases + mine, dalpha);
  });
  if (p.beta) {
    dalpha = group_sum<32>(dalpha);
    if (threadIdx.x % 32 == 0) atomicAdd(d.alpha, dalpha);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < width; i += kWideBlock) {
    T weight = 0, bias = 0;
#pragma unroll
    for (int w = 0; w < kWideWarps; ++w) {
      weight += weights[w * row + i];
      bias += biases[w * row + i];
    }
    if (p.gate) atomicAdd(d.weight + i, weight);
    if (p.beta) atomicAdd(d.bias + i, bias);
  }
}

// f(values of one access). Double is for verification: one form is enough.
template <class T, class F>
void with_vectors(int64_t width, F&& f) {
  if constexpr (sizeof(T) == 4)
    if (width % 4 == 0) return f(std::integral_constant<int, 4>());
  f(std::integral_constant<int, 1>());
}

}  // namespace

template <class T, class A>
void gated_update_forward(CudaStream stream, const GatedUpdate<T, A>& p, T* out,
                          RowStatistics<T>* statistics) {
  if (p.rows == 0) return;
  with_vectors<T>(p.width, [&](auto v) {
    launch(stream, {wide_blocks(p.rows), kWideBlock, wide_rows<T>(p.width)},
           gated_update<v.value, T, A>, p, out, statistics, static_cast<int>(p.width));
  });
  check_launch("gated_update_forward");
}

template <class T, class A>
void gated_update_backward(CudaStream stream, const GatedUpdate<T, A>& p,
                           const RowStatistics<T>* statistics, const T* dout,
                           const GatedUpdateGradients<T, A>& gradients) {
  // Each block adds rows to the gradients of parameters at its end: few blocks, all of them at once.
  const int64_t at_once = 3 * blocks_for_sums();
  if (p.rows == 0) return;
  with_vectors<T>(p.width, [&](auto v) {
    launch(stream, {wide_blocks(p.rows, at_once), kWideBlock, 3 * wide_rows<T>(p.width)},
           gated_update_back<v.value, T, A>, p, statistics, dout, gradients,
           static_cast<int>(p.width));
  });
  check_launch("gated_update_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                                   \
  template void gated_update_forward(CudaStream, const GatedUpdate<T, A>&, T*, RowStatistics<T>*); \
  template void gated_update_backward(CudaStream, const GatedUpdate<T, A>&,                        \
                                      const RowStatistics<T>*, const T*,                           \
                                      const GatedUpdateGradients<T, A>&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
