#include "geores/kernels/pooled/token_summary.h"

#include "geores/kernels/pooled/running_sums.cuh"
#include "geores/kernels/pooled/wide_summary.h"

namespace geores::kernels {
namespace {

using namespace device;

// One block for each sequence; without running sums, one block for any `length` tokens.
template <bool Running, int N, class L, class T, class A>
__global__ void __launch_bounds__(kScanThreads)
    forward(const T* x, const A* branch, T* total, A* means, T* entropies, int64_t tokens,
            int64_t length, int d) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  constexpr int groups = kScanThreads / L::kGroup;
  const int lane = threadIdx.x % L::kGroup, width = N * d;
  const int64_t first = blockIdx.x * length, end = min(first + length, tokens);
  RunningSums<N, L, T> sums(memory, Running ? d : 0);
  const auto load = [&](int64_t t, Token<N, L, T>& in, Token<N, L, T>& added) {
    const auto at = min(t, end - 1) * width;
    in.load(x + at, lane, d);
    if (branch) added.load(branch + at, lane, d);
  };
  Token<N, L, T> next, next_added;
  auto t = first + threadIdx.x / L::kGroup;
  load(t, next, next_added);
  for (int64_t begin = first; begin < end; begin += groups, t += groups) {
    auto in = next, added = next_added;
    if (begin + groups < end) load(t + groups, next, next_added);  // loads in the background
    const bool there = t < end;
    if (branch) {
      in.for_each([&](int i, int c) { in.at[i][c] += added.at[i][c]; });
      if (there) in.store(total + t * width, lane, d);
    }
    T entropy = 0;
    if (entropies) {
      const Gram<N, L, T> gram(in);
      if (there) entropy = gram.entropy();
    }
    if constexpr (Running) {
      if (!there) in.for_each([&](int i, int c) { in.at[i][c] = T(0); });
      sums.add(in, entropy);
      const T share = T(1) / T(t - first + 1);
      in.for_each([&](int i, int c) { in.at[i][c] *= share; });
      entropy *= share;
    }
    if (!there) continue;
    if (means) in.store(means + t * width, lane, d);
    if (entropies && lane == 0) entropies[t] = entropy;
  }
}

// The same from the end of the sequence to its beginning.
template <bool Running, int N, class L, class T, class A>
__global__ void __launch_bounds__(kScanThreads)
    backward(const T* x, const T* dmeans, const T* dentropies, const T* skip, T* dx, A* dbranch,
             int64_t tokens, int64_t length, int d) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  constexpr int groups = kScanThreads / L::kGroup;
  const int lane = threadIdx.x % L::kGroup, width = N * d;
  const int64_t first = blockIdx.x * length, end = min(first + length, tokens);
  RunningSums<N, L, T> sums(memory, Running ? d : 0);
  Token<N, L, T> next;
  auto t = end - 1 - threadIdx.x / L::kGroup;
  next.load(dmeans + max(t, first) * width, lane, d);
  for (int64_t stop = end; stop > first; stop -= groups, t -= groups) {
    const bool there = t >= first;
    const auto at = max(t, first);
    auto gradient = next;
    if (stop - groups > first) next.load(dmeans + max(t - groups, first) * width, lane, d);
    Token<N, L, T> in, around = {};
    if (dentropies) in.load(x + at * width, lane, d);
    if (skip) around.load(skip + at * width, lane, d);
    T dentropy = dentropies ? dentropies[at] : T(0);
    if constexpr (Running) {
      const T share = there ? T(1) / T(at - first + 1) : T(0);
      gradient.for_each([&](int i, int c) { gradient.at[i][c] *= share; });
      dentropy *= share;
      sums.add(gradient, dentropy);
    }
    if (dentropies) {
      Gram<N, L, T> gram(in);
      gram.make_slope(dentropy);
      const auto slope = apply<false>(gram.matrix, in);
      gradient.for_each([&](int i, int c) { gradient.at[i][c] += slope.at[i][c]; });
    }
    gradient.for_each([&](int i, int c) { gradient.at[i][c] += around.at[i][c]; });
    if (!there) continue;
    gradient.store(dx + at * width, lane, d);
    if (dbranch) gradient.store(dbranch + at * width, lane, d);
  }
}

// f(whether sums run on, streams, columns, tokens of a block, grid).
template <class T, class F>
void with_summary(int64_t length, const StreamShape& s, F&& f) {
  with_streams<T>(s.n, s.d, [&]<class L>(auto n, L columns) {
    const auto grid = [&](int64_t span, size_t shared) {
      return Grid{(s.tokens + span - 1) / span, kScanThreads, shared};
    };
    if (length > 0) {
      f(std::true_type(), n, columns, length,
        grid(length, RunningSums<n.value, L, T>::bytes(s.n * s.d)));
    } else {
      constexpr int64_t span = kScanThreads / L::kGroup;
      f(std::false_type(), n, columns, span, grid(span, 0));
    }
  });
}

}  // namespace

template <class T, class A>
void token_summary_forward(CudaStream stream, const T* x, const A* branch, T* total, A* means,
                           T* entropies, int64_t length, const StreamShape& s) {
  if (s.d > kDeviceStreamWidth)
    return wide_summary_forward(stream, x, branch, total, means, entropies, length, s);
  with_summary<T>(length, s, [&]<class L>(auto running, auto n, L, int64_t span, const Grid& grid) {
    launch(stream, grid, forward<running.value, n.value, L, T, A>, x, branch, total, means,
           entropies, s.tokens, span, static_cast<int>(s.d));
  });
  check_launch("token_summary_forward");
}

template <class T, class A>
void token_summary_backward(CudaStream stream, const T* x, const T* dmeans, T* dentropies,
                            const T* skip, T* dx, A* dbranch, int64_t length,
                            const StreamShape& s) {
  if (s.d > kDeviceStreamWidth)
    return wide_summary_backward(stream, x, dmeans, dentropies, skip, dx, dbranch, length, s);
  with_summary<T>(length, s, [&]<class L>(auto running, auto n, L, int64_t span, const Grid& grid) {
    launch(stream, grid, backward<running.value, n.value, L, T, A>, x, dmeans, dentropies, skip, dx,
           dbranch, s.tokens, span, static_cast<int>(s.d));
  });
  check_launch("token_summary_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                             \
  template void token_summary_forward(CudaStream, const T*, const A*, T*, A*, T*, int64_t,   \
                                      const StreamShape&);                                   \
  template void token_summary_backward(CudaStream, const T*, const T*, T*, const T*, T*, A*, \
                                       int64_t, const StreamShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
