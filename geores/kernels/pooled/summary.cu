#include "geores/kernels/pooled/summary.h"

#include "geores/kernels/streams/streams.cuh"

namespace geores::kernels {
namespace {

using namespace device;

// One block for each part of a sequence.
template <int N, class L, class T, class A>
__global__ void forward(const T* x, const A* branch, T* total, T* sums, T* entropies,
                        int64_t length, int d) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  __shared__ T entropy_sum;
  const int lane = threadIdx.x % L::kGroup, width = N * d, groups = blockDim.x / L::kGroup;
  if (threadIdx.x == 0) entropy_sum = T(0);
  auto* shared = reinterpret_cast<T*>(memory);
  for (int i = threadIdx.x; i < width; i += blockDim.x) shared[i] = T(0);
  __syncthreads();
  const int64_t sequence = blockIdx.x / kSummaryParts;
  const int part = blockIdx.x % kSummaryParts, stride = groups * kSummaryParts;
  Token<N, L, T> sum = {};
  T entropy = 0;
  for (int64_t begin = 0; begin < length; begin += stride) {
    const auto t = begin + part * groups + threadIdx.x / L::kGroup;
    const auto at = (sequence * length + min(t, length - 1)) * width;
    Token<N, L, T> in;
    in.load(x + at, lane, d);
    if (branch) {
      Token<N, L, T> added;
      added.load(branch + at, lane, d);
      in.for_each([&](int i, int c) { in.at[i][c] += added.at[i][c]; });
      if (t < length) in.store(total + at, lane, d);
    }
    if (t < length) in.for_each([&](int i, int c) { sum.at[i][c] += in.at[i][c]; });
    if (!entropies) continue;
    const Gram<N, L, T> gram(in);
    if (t < length) entropy += gram.entropy();
  }
  sum.for_each([&](int i, int c) { sum.at[i][c] = sum_over_groups<L::kGroup>(sum.at[i][c]); });
  if (threadIdx.x % 32 < L::kGroup)
#pragma unroll
    for (int i = 0; i < N; ++i)
      L::for_each_run(lane, d, [&](int slot, int column) {
#pragma unroll
        for (int c = 0; c < L::kVector; ++c)
          atomicAdd(shared + i * d + column + c, sum.at[i][slot + c]);
      });
  if (entropies && lane == 0) atomicAdd(&entropy_sum, entropy);
  __syncthreads();
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    sums[blockIdx.x * static_cast<int64_t>(width) + i] = shared[i];
  if (entropies && threadIdx.x == 0) entropies[blockIdx.x] = entropy_sum;
}

template <int N, class L, class T, class A>
__global__ void backward(const T* x, const T* dmean, const T* dentropy, const T* skip, T* dx,
                         A* dbranch, int64_t tokens, int64_t length, int d) {
  wait_for_previous();
  const int lane = threadIdx.x % L::kGroup, width = N * d;
  const T share = T(1) / T(length);
  for_each_token<L::kGroup>(tokens, [&](int64_t t, bool there) {
    const auto sequence = t / length;
    Token<N, L, T> total, part, around = {};
    total.load(dmean + sequence * width, lane, d);
    if (skip) around.load(skip + t * width, lane, d);
    total.for_each([&](int i, int c) { total.at[i][c] *= share; });
    if (dentropy) {
      part.load(x + t * width, lane, d);
      Gram<N, L, T> gram(part);
      gram.make_slope(dentropy[sequence] * share);
      const auto slope = apply<false>(gram.matrix, part);
      total.for_each([&](int i, int c) { total.at[i][c] += slope.at[i][c]; });
    }
    total.for_each([&](int i, int c) { total.at[i][c] += around.at[i][c]; });
    if (!there) return;
    total.store(dx + t * width, lane, d);
    if (dbranch) total.store(dbranch + t * width, lane, d);
  });
}

}  // namespace

template <class T, class A>
void summary_forward(CudaStream stream, const T* x, const A* branch, T* total, T* sums,
                     T* entropies, int64_t sequences, const StreamShape& s) {
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    launch(stream,
           {static_cast<unsigned>(sequences * kSummaryParts), kThreads,
            static_cast<size_t>(s.n * s.d) * sizeof(T)},
           forward<n.value, L, T, A>, x, branch, total, sums, entropies, s.tokens / sequences,
           static_cast<int>(s.d));
  });
  check_launch("summary_forward");
}

template <class T, class A>
void summary_backward(CudaStream stream, const T* x, const T* dmean, const T* dentropy,
                      const T* skip, T* dx, A* dbranch, int64_t sequences, const StreamShape& s) {
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L) {
    launch(stream, {blocks_for(s.tokens, L::kGroup), kThreads}, backward<n.value, L, T, A>, x,
           dmean, dentropy, skip, dx, dbranch, s.tokens, s.tokens / sequences,
           static_cast<int>(s.d));
  });
  check_launch("summary_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                             \
  template void summary_forward(CudaStream, const T*, const A*, T*, T*, T*, int64_t,         \
                                const StreamShape&);                                         \
  template void summary_backward(CudaStream, const T*, const T*, const T*, const T*, T*, A*, \
                                 int64_t, const StreamShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
