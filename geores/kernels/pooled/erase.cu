#include "geores/kernels/pooled/erase.h"

#include "geores/kernels/cuda/activations.cuh"
#include "geores/kernels/cuda/device.cuh"

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

// One token: takes x in v and k, computes g, LN(g) and its statistics.
template <class L, class T, class A>
__device__ inline void erase_token(T (&v)[L::kHeld], const T (&k)[L::kHeld], T beta,
                                   const T (&weight)[L::kHeld], T eps, T* g, A* h,
                                   RowStatistics<T>* statistics, int64_t t, bool there, int width) {
  const int lane = threadIdx.x % L::kGroup;
  const T share = beta * inner<L>(v, k);
  T mean = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < L::kHeld; ++i) {
    v[i] -= share * k[i];
    mean += v[i];
  }
  if (there) L::store(v, g + t * width, lane, width);
  mean = group_sum<L::kGroup>(mean) / T(width);
  L::for_each_run(lane, width, [&](int slot, int) {
#pragma unroll
    for (int i = 0; i < L::kVector; ++i) {
      v[slot + i] -= mean;
      squares += v[slot + i] * v[slot + i];
    }
  });
  const T inverse = T(1) / sqrt(group_sum<L::kGroup>(squares) / T(width) + eps);
#pragma unroll
  for (int i = 0; i < L::kHeld; ++i) v[i] *= inverse * weight[i];
  if (!there) return;
  L::store(v, h + t * width, lane, width);
  if (lane == 0) statistics[t] = {mean, inverse};
}

// The backward pass: g comes in as dh and becomes dx; `around` is dg. Adds the token's part to the
// gradients of k, beta and the weight.
template <class L, class T>
__device__ inline void erase_token_back(const T (&v)[L::kHeld], const T (&k)[L::kHeld], T beta,
                                        const T (&weight)[L::kHeld], const RowStatistics<T>& s,
                                        const T (&around)[L::kHeld], T (&g)[L::kHeld], bool there,
                                        int width, T (&dk)[L::kHeld], T& dbeta,
                                        T (&dweight)[L::kHeld]) {
  T z[L::kHeld], sum_g = 0, sum_gz = 0;
  const T along = inner<L>(v, k);
#pragma unroll
  for (int i = 0; i < L::kHeld; ++i) {
    z[i] = (v[i] - beta * along * k[i] - s.mean) * s.inverse;
    if (there) dweight[i] += g[i] * z[i];
    g[i] *= weight[i];
    sum_g += g[i];
    sum_gz += g[i] * z[i];
  }
  sum_g = group_sum<L::kGroup>(sum_g) / T(width);
  sum_gz = group_sum<L::kGroup>(sum_gz) / T(width);
#pragma unroll
  for (int i = 0; i < L::kHeld; ++i) g[i] = around[i] + s.inverse * (g[i] - sum_g - z[i] * sum_gz);
  const T back = inner<L>(g, k);  // k is 0 beyond the row
  if (!there) return;
  dbeta -= along * back;
#pragma unroll
  for (int i = 0; i < L::kHeld; ++i) {
    dk[i] -= beta * (along * g[i] + back * v[i]);
    g[i] -= beta * back * k[i];
  }
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
    T v[L::kHeld], k[L::kHeld];
    L::load(x + t * width, lane, width, v);
    L::load(erase.k + sequence * width, lane, width, k);
    erase_token<L>(v, k, erase.beta[sequence], weight, norm.eps, g, h, statistics, t, there, width);
  });
}

// `parts` blocks share a sequence.
template <class L, class T, class A>
__global__ void backward(EraseArrays<const T> erase, const T* x, Norm<T> norm,
                         const RowStatistics<T>* statistics, const T* dg, const A* dh, T* dx,
                         EraseArrays<T> gradients, T* dweight, int64_t length, int width,
                         int parts) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
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
    T v[L::kHeld], g[L::kHeld], around[L::kHeld] = {};
    L::load(x + t * width, lane, width, v);
    L::load(dh + t * width, lane, width, g);
    if (dg) L::load(dg + t * width, lane, width, around);
    erase_token_back<L>(v, k, beta, weight, statistics[t], around, g, there, width, dk, dbeta,
                        dweight_here);
    if (there) L::store(g, dx + t * width, lane, width);
  }
  auto* shared = reinterpret_cast<T*>(memory);
  add_columns<L>(&dk, 1, shared, gradients.k + sequence * width, width);
  if (lane == 0) atomicAdd(gradients.beta + sequence, dbeta);
  if (dweight) add_columns<L>(&dweight_here, 1, shared, dweight, width);
}

// A token's direction k and its β, from raw values and their biases.
template <class L, class T>
struct RawErase {
  T k[L::kHeld], norm, beta;  // norm: the divisor of k

  __device__ RawErase(const T* raw, const T (&bias)[L::kHeld], T beta_bias, int lane, int width) {
    L::load(raw, lane, width, k);
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) k[i] += bias[i];  // both are 0 beyond the row
    norm = sqrt(inner<L>(k, k));
    if (!(norm > T(kSmallestNorm))) norm = T(kSmallestNorm);
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) k[i] /= norm;
    beta = T(2) * sigmoid(raw[width] + beta_bias);
  }
};

template <class L, class T, class A>
__global__ void token_forward(RawEraseArrays<const T> raw, const T* x, Norm<T> norm, T* g, A* h,
                              RowStatistics<T>* statistics, int64_t tokens, int width) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup;
  T weight[L::kHeld], bias[L::kHeld];
  L::load_parameters(norm.weight, lane, width, T(1), weight);
  L::load_parameters(raw.k_bias, lane, width, T(0), bias);
  const T beta_bias = raw.beta_bias[0];
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    T v[L::kHeld];
    L::load(x + t * width, lane, width, v);
    const RawErase<L, T> erase(raw.values + t * raw.stride, bias, beta_bias, lane, width);
    erase_token<L>(v, erase.k, erase.beta, weight, norm.eps, g, h, statistics, t, there, width);
  });
}

template <class L, class T, class A>
__global__ void token_backward(RawEraseArrays<const T> raw, const T* x, Norm<T> norm,
                               const RowStatistics<T>* statistics, const T* dg, const A* dh, T* dx,
                               A* draw, T* dk_bias, T* dbeta_bias, T* dweight, int64_t tokens,
                               int width) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const int lane = threadIdx.x % L::kGroup;
  T weight[L::kHeld], bias[L::kHeld], dweight_here[L::kHeld] = {}, dbias[L::kHeld] = {},
                                      dbeta_sum = 0;
  L::load_parameters(norm.weight, lane, width, T(1), weight);
  L::load_parameters(raw.k_bias, lane, width, T(0), bias);
  const T beta_bias = raw.beta_bias[0];
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    T v[L::kHeld], d[L::kHeld], around[L::kHeld] = {}, dk[L::kHeld] = {}, dbeta = 0;
    L::load(x + t * width, lane, width, v);
    L::load(dh + t * width, lane, width, d);
    if (dg) L::load(dg + t * width, lane, width, around);
    const RawErase<L, T> erase(raw.values + t * raw.stride, bias, beta_bias, lane, width);
    erase_token_back<L>(v, erase.k, erase.beta, weight, statistics[t], around, d, there, width, dk,
                        dbeta, dweight_here);
    T along = inner<L>(erase.k, dk);
    if (!(erase.norm > T(kSmallestNorm))) along = T(0);
    if (!there) return;
#pragma unroll
    for (int i = 0; i < L::kHeld; ++i) {
      dk[i] = (dk[i] - along * erase.k[i]) / erase.norm;
      dbias[i] += dk[i];
    }
    dbeta *= erase.beta * (T(1) - T(0.5) * erase.beta);
    L::store(d, dx + t * width, lane, width);
    L::store(dk, draw + t * raw.stride, lane, width);
    for (int i = width + lane; i < raw.stride; i += L::kGroup)
      draw[t * raw.stride + i] = As<A>::from(i == width ? dbeta : T(0));
    dbeta_sum += dbeta;
  });
  auto* shared = reinterpret_cast<T*>(memory);
  add_columns<L>(&dbias, 1, shared, dk_bias, width);
  if (dweight) add_columns<L>(&dweight_here, 1, shared, dweight, width);
  if (lane == 0) atomicAdd(dbeta_bias, dbeta_sum);
}

}  // namespace

template <class T, class A>
void erase_norm_forward(CudaStream stream, const EraseArrays<const T>& erase, const T* x,
                        const Norm<T>& norm, T* g, A* h, RowStatistics<T>* statistics,
                        int64_t sequences, int64_t tokens, int64_t width) {
  with_row<T>(width, [&]<class L>(L) {
    launch(stream, {blocks_for(tokens, L::kGroup), kThreads}, forward<L, T, A>, erase, x, norm, g,
           h, statistics, tokens, tokens / sequences, static_cast<int>(width));
  });
  check_launch("erase_norm_forward");
}

template <class T, class A>
void erase_norm_backward(CudaStream stream, const EraseArrays<const T>& erase, const T* x,
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

template <class T, class A>
void token_erase_norm_forward(CudaStream stream, const RawEraseArrays<const T>& raw, const T* x,
                              const Norm<T>& norm, T* g, A* h, RowStatistics<T>* statistics,
                              int64_t tokens, int64_t width) {
  with_row<T>(width, [&]<class L>(L) {
    launch(stream, {blocks_for(tokens, L::kGroup), kThreads}, token_forward<L, T, A>, raw, x, norm,
           g, h, statistics, tokens, static_cast<int>(width));
  });
  check_launch("token_erase_norm_forward");
}

template <class T, class A>
void token_erase_norm_backward(CudaStream stream, const RawEraseArrays<const T>& raw, const T* x,
                               const Norm<T>& norm, const RowStatistics<T>* statistics, const T* dg,
                               const A* dh, T* dx, A* draw, T* dk_bias, T* dbeta_bias, T* dweight,
                               int64_t tokens, int64_t width) {
  with_row<T>(width, [&]<class L>(L) {
    // Each block adds its sums to global memory at the end.
    launch(stream,
           {blocks_for(tokens, L::kGroup, 2 * blocks_for_sums()), kThreads,
            static_cast<size_t>(width) * sizeof(T)},
           token_backward<L, T, A>, raw, x, norm, statistics, dg, dh, dx, draw, dk_bias, dbeta_bias,
           dweight, tokens, static_cast<int>(width));
  });
  check_launch("token_erase_norm_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                                 \
  template void erase_norm_forward(CudaStream, const EraseArrays<const T>&, const T*,            \
                                   const Norm<T>&, T*, A*, RowStatistics<T>*, int64_t, int64_t,  \
                                   int64_t);                                                     \
  template void erase_norm_backward(CudaStream, const EraseArrays<const T>&, const T*,           \
                                    const Norm<T>&, const RowStatistics<T>*, const T*, const A*, \
                                    T*, const EraseArrays<T>&, T*, int64_t, int64_t, int64_t);   \
  template void token_erase_norm_forward(CudaStream, const RawEraseArrays<const T>&, const T*,   \
                                         const Norm<T>&, T*, A*, RowStatistics<T>*, int64_t,     \
                                         int64_t);                                               \
  template void token_erase_norm_backward(CudaStream, const RawEraseArrays<const T>&, const T*,  \
                                          const Norm<T>&, const RowStatistics<T>*, const T*,     \
                                          const A*, T*, A*, T*, T*, T*, int64_t, int64_t);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
