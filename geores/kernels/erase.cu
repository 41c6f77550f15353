#include "geores/kernels/erase.h"

#include "geores/kernels/device.cuh"

namespace geores::kernels {
namespace {

using namespace device;

template <class L, class T>
__device__ inline T inner(const T (&a)[L::kHeld], const T (&b)[L::kHeld]) {
  T sum = 0;
#pragma unroll
  for (int i = 0; i < L::kHeld; ++i) sum += a[i] * b[i];
  return group_sum<L::kGroup>(sum);
}

template <class L, class T, class A>
__global__ void forward(EraseArrays<const T> erase, const T* x, Norm<T> norm, T* g, A* h,
                        RowStatistics<T>* statistics, int64_t tokens, int64_t length, int width) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup;
  T weight[L::kHeld];
  L::load_parameters(norm.weight, lane, width, T(1), weight);
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    const auto sequence = t / length;
    T v[L::kHeld], k[L::kHeld], mean = 0, squares = 0;
    L::load(x + t * width, lane, width, v);
    L::load(erase.k + sequence * width, lane, width, k);
    const T share = erase.beta[sequence] * inner<L>(v, k);
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) {
      v[i] -= share * k[i];
      mean += v[i];
    }
    if (there) L::store(v, g + t * width, lane, width);
    mean = group_sum<L::kGroup>(mean) / T(width);
    L::for_each_run(lane, width, [&](int place, int) {
#pragma unroll
      for (int i = 0; i < L::kVector; ++i) {
        v[place + i] -= mean;
        squares += v[place + i] * v[place + i];
      }
    });
    const T inverse = T(1) / sqrt(group_sum<L::kGroup>(squares) / T(width) + norm.eps);
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) v[i] *= inverse * weight[i];
    if (!there) return;
    L::store(v, h + t * width, lane, width);
    if (lane == 0) statistics[t] = {mean, inverse};
  });
}

// `parts` blocks share a sequence.
template <class L, class T, class A>
__global__ void backward(EraseArrays<const T> erase, const T* x, Norm<T> norm,
                         const RowStatistics<T>* statistics, const T* dg, const A* dh, T* dx,
                         EraseArrays<T> gradients, T* dweight, int64_t length, int width,
                         int parts) {
  wait_for_previous();
  extern __shared__ unsigned char memory[];
  const int lane = threadIdx.x % L::kGroup, groups = blockDim.x / L::kGroup;
  const int64_t sequence = blockIdx.x / parts;
  T weight[L::kHeld], k[L::kHeld], dk[L::kHeld] = {}, dweight_here[L::kHeld] = {}, dbeta = 0;
  L::load_parameters(norm.weight, lane, width, T(1), weight);
  L::load(erase.k + sequence * width, lane, width, k);
  const T beta = erase.beta[sequence];
  for (int64_t begin = 0; begin < length; begin += groups * parts) {
    const auto at = begin + blockIdx.x % parts * groups + threadIdx.x / L::kGroup;
    const bool there = at < length;
    const auto t = sequence * length + min(at, length - 1);
    const auto s = statistics[t];
    T v[L::kHeld], z[L::kHeld], g[L::kHeld], around[L::kHeld] = {}, sum_g = 0, sum_gz = 0;
    L::load(x + t * width, lane, width, v);
    L::load(dh + t * width, lane, width, g);
    if (dg) L::load(dg + t * width, lane, width, around);
    const T along = inner<L>(v, k);
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) {
      z[i] = (v[i] - beta * along * k[i] - s.mean) * s.inverse;
      if (there) dweight_here[i] += g[i] * z[i];
      g[i] *= weight[i];
      sum_g += g[i];
      sum_gz += g[i] * z[i];
    }
    sum_g = group_sum<L::kGroup>(sum_g) / T(width);
    sum_gz = group_sum<L::kGroup>(sum_gz) / T(width);
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i)
      g[i] = around[i] + s.inverse * (g[i] - sum_g - z[i] * sum_gz);
    const T back = inner<L>(g, k);  // k is 0 beyond the row
    if (!there) continue;
    dbeta -= along * back;
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) {
      dk[i] -= beta * (along * g[i] + back * v[i]);
      g[i] -= beta * back * k[i];
    }
    L::store(g, dx + t * width, lane, width);
  }
  auto* shared = reinterpret_cast<T*>(memory);
  add_columns<L>(&dk, 1, shared, gradients.k + sequence * width, width);
  if (lane == 0) atomicAdd(gradients.beta + sequence, dbeta);
  if (dweight) add_columns<L>(&dweight_here, 1, shared, dweight, width);
}

}  // namespace

template <class T, class A>
void erase_norm_forward(Stream stream, const EraseArrays<const T>& erase, const T* x,
                        const Norm<T>& norm, T* g, A* h, RowStatistics<T>* statistics,
                        int64_t sequences, int64_t tokens, int64_t width) {
  with_row<T>(width, [&]<class L>(L) {
    launch(stream, {blocks_for(tokens, L::kGroup), kThreads}, forward<L, T, A>, erase, x, norm, g,
           h, statistics, tokens, tokens / sequences, static_cast<int>(width));
  });
  check_launch("erase_norm_forward");
}

template <class T, class A>
void erase_norm_backward(Stream stream, const EraseArrays<const T>& erase, const T* x,
                         const Norm<T>& norm, const RowStatistics<T>* statistics, const T* dg,
                         const A* dh, T* dx, const EraseArrays<T>& gradients, T* dweight,
                         int64_t sequences, int64_t tokens, int64_t width) {
  cudaMemsetAsync(gradients.k, 0, static_cast<size_t>(sequences * width) * sizeof(T), stream);
  cudaMemsetAsync(gradients.beta, 0, static_cast<size_t>(sequences) * sizeof(T), stream);
  with_row<T>(width, [&]<class L>(L) {
    const auto length = tokens / sequences;
    const int parts =
        static_cast<int>(std::clamp<int64_t>(length / (4 * kThreads / L::kGroup), 1, 16));
    launch(stream,
           {static_cast<unsigned>(sequences * parts), kThreads,
            static_cast<size_t>(width) * sizeof(T)},
           backward<L, T, A>, erase, x, norm, statistics, dg, dh, dx, gradients, dweight, length,
           static_cast<int>(width), parts);
  });
  check_launch("erase_norm_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                                   \
  template void erase_norm_forward(Stream, const EraseArrays<const T>&, const T*, const Norm<T>&,  \
                                   T*, A*, RowStatistics<T>*, int64_t, int64_t, int64_t);          \
  template void erase_norm_backward(Stream, const EraseArrays<const T>&, const T*, const Norm<T>&, \
                                    const RowStatistics<T>*, const T*, const A*, T*,               \
                                    const EraseArrays<T>&, T*, int64_t, int64_t, int64_t);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
