#include "geores/kernels/streams/sequence_mix.h"

#include "geores/kernels/streams/streams.cuh"

namespace geores::kernels {
namespace {

using namespace device;

template <int N, class L, class T>
__global__ void sequence_mix(const T* m, const T* x, T* g, int64_t tokens, int64_t length, int d) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup;
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    if (!there) return;
    Token<N, L, T> in;
    in.load(x + t * N * d, lane, d);
    apply<false>(m + t / length * (N * N), in).store(g + t * N * d, lane, d);
  });
}

// One block for each part of a sequence.
template <int N, class L, class T>
__global__ void sequence_mix_products(const T* dg, const T* x, T* dm, int64_t length, int d) {
  wait_for_previous();
  constexpr int groups = kThreads / L::kGroup, count = N * N;
  __shared__ T sums[groups][count];
  const int lane = threadIdx.x % L::kGroup, group = threadIdx.x / L::kGroup;
  const int64_t sequence = blockIdx.x / kMixParts, first = sequence * length;
  const int part = blockIdx.x % kMixParts;
  T products[count] = {};
#pragma unroll 2
  for (int64_t t = part * groups + group; t < length; t += groups * kMixParts) {
    Token<N, L, T> gradient, in;  // 0 beyond the row
    gradient.load(dg + (first + t) * N * d, lane, d);
    in.load(x + (first + t) * N * d, lane, d);
    add_inner_products(gradient, in, products);
  }
  SharedSums<L::kGroup, count, T>(products).store(sums[group], lane);
  __syncthreads();
  if (threadIdx.x >= count) return;
  T sum = 0;
#pragma unroll
  for (int i = 0; i < groups; ++i) sum += sums[i][threadIdx.x];
  dm[static_cast<int64_t>(blockIdx.x) * count + threadIdx.x] = sum;
}

template <int N, class L, class T>
__global__ void sequence_mix_back(const T* m, const T* dg, const T* dmean, T* dx, int64_t tokens,
                                  int64_t length, int d) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup, width = N * d;
  const T share = T(1) / T(length);
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    if (!there) return;
    const auto sequence = t / length;
    Token<N, L, T> gradient, mean;
    gradient.load(dg + t * width, lane, d);
    mean.load(dmean + sequence * width, lane, d);
    auto out = apply<true>(m + sequence * (N * N), gradient);
    out.for_each([&](int i, int c) { out.at[i][c] += share * mean.at[i][c]; });
    out.store(dx + t * width, lane, d);
  });
}

}  // namespace

template <class T>
void sequence_mix_forward(CudaStream stream, const T* m, const T* x, T* g, int64_t sequences,
                          const StreamShape& s) {
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    launch(stream, {blocks_for(s.tokens, L::kGroup), kThreads}, sequence_mix<n.value, L, T>, m, x,
           g, s.tokens, s.tokens / sequences, static_cast<int>(s.d));
  });
  check_launch("sequence_mix_forward");
}

template <class T>
void sequence_mix_sums(CudaStream stream, const T* dg, const T* x, T* dm, int64_t sequences,
                       const StreamShape& s) {
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    launch(stream, {sequences * kMixParts, kThreads}, sequence_mix_products<n.value, L, T>, dg, x,
           dm, s.tokens / sequences, static_cast<int>(s.d));
  });
  check_launch("sequence_mix_sums");
}

template <class T>
void sequence_mix_backward(CudaStream stream, const T* m, const T* dg, const T* dmean, T* dx,
                           int64_t sequences, const StreamShape& s) {
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    launch(stream, {blocks_for(s.tokens, L::kGroup), kThreads}, sequence_mix_back<n.value, L, T>, m,
           dg, dmean, dx, s.tokens, s.tokens / sequences, static_cast<int>(s.d));
  });
  check_launch("sequence_mix_backward");
}

#define GEORES_INSTANTIATE(T)                                                                \
  template void sequence_mix_forward(CudaStream, const T*, const T*, T*, int64_t,            \
                                     const StreamShape&);                                    \
  template void sequence_mix_sums(CudaStream, const T*, const T*, T*, int64_t,               \
                                  const StreamShape&);                                       \
  template void sequence_mix_backward(CudaStream, const T*, const T*, const T*, T*, int64_t, \
                                      const StreamShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
