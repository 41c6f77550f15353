#include "geores/kernels/mixers/permutations.h"

#include <utility>

#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/sizes.h"
#include "geores/manifold/permutation.h"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kBlock = 64;  // small, so that 16 000 tokens reach all multiprocessors

template <int N>
using Set = manifold::AllPermutations<N>;

// f<m>() for each permutation m: its indices are compile-time constants, so that every value stays
// in a register.
template <int N, class F>
__device__ inline void for_each_permutation(F&& f) {
  [&]<int... Index>(std::integer_sequence<int, Index...>) {
    (f(std::integral_constant<int, Index>()), ...);
  }
  (std::make_integer_sequence<int, Set<N>::count>());
}

// The softmax of a token's logits.
template <int N, class T>
__device__ inline void load_weights(const T* logits, T (&weight)[Set<N>::count]) {
  constexpr int count = Set<N>::count;
  T largest = logits[0], sum = 0;
#pragma unroll
  for (int m = 0; m < count; ++m) {
    weight[m] = logits[m];
    largest = weight[m] > largest ? weight[m] : largest;
  }
#pragma unroll
  for (int m = 0; m < count; ++m) {
    weight[m] = exp(weight[m] - largest);
    sum += weight[m];
  }
#pragma unroll
  for (int m = 0; m < count; ++m) weight[m] /= sum;
}

template <int N, class T>
__global__ void __launch_bounds__(kBlock) mixture(const T* logits, T* h, int64_t tokens) {
  wait_for_previous();
  const auto t = static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (t >= tokens) return;
  T weight[Set<N>::count], sums[N * N] = {};
  load_weights<N>(logits + t * Set<N>::count, weight);
  for_each_permutation<N>([&](auto m) {
    constexpr auto permutation = manifold::nth_permutation<N>(m.value);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i * N + permutation.to[i]] += weight[m.value];
  });
#pragma unroll
  for (int i = 0; i < N * N; ++i) h[t * (N * N) + i] = sums[i];
}

// dlogits_m = w_m (⟨dH, P_m⟩ − Σ_k w_k ⟨dH, P_k⟩).
template <int N, class T>
__global__ void __launch_bounds__(kBlock)
    mixture_back(const T* logits, const T* dh, T* dlogits, int64_t tokens) {
  wait_for_previous();
  constexpr int count = Set<N>::count;
  const auto t = static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  if (t >= tokens) return;
  T weight[count], along[count], d[N * N], mean = 0;
  load_weights<N>(logits + t * count, weight);
#pragma unroll
  for (int i = 0; i < N * N; ++i) d[i] = dh[t * (N * N) + i];
  for_each_permutation<N>([&](auto m) {
    constexpr auto permutation = manifold::nth_permutation<N>(m.value);
    T sum = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += d[i * N + permutation.to[i]];
    along[m.value] = sum;
    mean += weight[m.value] * sum;
  });
#pragma unroll
  for (int m = 0; m < count; ++m) dlogits[t * count + m] = weight[m] * (along[m] - mean);
}

Grid grid_of(const MixerShape& s) { return {(s.tokens + kBlock - 1) / kBlock, kBlock}; }

}  // namespace

template <class T>
void permutation_mixture_forward(CudaStream stream, const T* logits, T* h, const MixerShape& s) {
  if (s.tokens == 0) return;
  with_count(DeviceMixers(), s.n,
             [&](auto n) { launch(stream, grid_of(s), mixture<n.value, T>, logits, h, s.tokens); });
  check_launch("permutation_mixture_forward");
}

template <class T>
void permutation_mixture_backward(CudaStream stream, const T* logits, const T* dh, T* dlogits,
                                  const MixerShape& s) {
  if (s.tokens == 0) return;
  with_count(DeviceMixers(), s.n, [&](auto n) {
    launch(stream, grid_of(s), mixture_back<n.value, T>, logits, dh, dlogits, s.tokens);
  });
  check_launch("permutation_mixture_backward");
}

#define GEORES_INSTANTIATE(T)                                                             \
  template void permutation_mixture_forward(CudaStream, const T*, T*, const MixerShape&); \
  template void permutation_mixture_backward(CudaStream, const T*, const T*, T*, const MixerShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
