#include "geores/kernels/attention/dropped_softmax.h"

#include <type_traits>

#include "geores/kernels/cuda/device.cuh"

namespace geores::kernels {
namespace {

using namespace device;

// Several times as many as run at once, so that few wait for the last ones; not one for every eight rows,
// because a key costs a thread as much as two weights.
int most_blocks() { return 16 * blocks_for_sums(); }

template <class A>
using Number = std::conditional_t<std::is_same_v<A, double>, double, float>;

template <class T>
__device__ inline T warp_max(T x) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(kAllLanes, x, distance);
    x = other > x ? other : x;
  }
  return x;
}

__device__ inline int columns_seen(const WeightsShape& shape, int64_t row) {
  if (!shape.causal) return static_cast<int>(shape.length);
  return static_cast<int>(static_cast<uint32_t>(row) % static_cast<uint32_t>(shape.length)) + 1;
}

// Turns the scores of the columns below `seen` that this lane holds into their softmax. The last run
// may reach beyond `seen`: zeros there.
template <class L, class T>
__device__ inline void softmax(T (&w)[L::kHeld], int lane, int seen, T scale) {
  T largest = -INFINITY;
  L::for_each_run(lane, seen, [&](int slot, int column) {
#pragma unroll
    for (int i = 0; i < L::kVector; ++i) {
      w[slot + i] = column + i < seen ? scale * w[slot + i] : -INFINITY;
      largest = w[slot + i] > largest ? w[slot + i] : largest;
    }
  });
  largest = warp_max(largest);
  T sum = 0;
  L::for_each_run(lane, seen, [&](int slot, int) {
#pragma unroll
    for (int i = 0; i < L::kVector; ++i) {
      w[slot + i] = exp(w[slot + i] - largest);
      sum += w[slot + i];
    }
  });
  const T share = T(1) / group_sum<32>(sum);
  L::for_each_run(lane, seen, [&](int slot, int) {
#pragma unroll
    for (int i = 0; i < L::kVector; ++i) w[slot + i] *= share;
  });
}

// Runs beyond `seen` are neither read nor set.
template <class L, class A, class T>
__device__ inline void load_seen(const A* row, int lane, int seen, T (&to)[L::kHeld]) {
  L::for_each_run(lane, seen,
                  [&](int slot, int column) { load_values<L::kVector>(row + column, to + slot); });
}

// value(index in the lane's array, column) for the columns below `seen`, zeros for the others.
template <class L, class A, class F>
__device__ inline void store_row(A* row, int lane, int seen, int length, F&& value) {
  L::for_each_run(lane, length, [&](int slot, int column) {
    Number<A> v[L::kVector];
#pragma unroll
    for (int i = 0; i < L::kVector; ++i)
      v[i] = column + i < seen ? value(slot + i, column + i) : Number<A>(0);
    store_values<L::kVector>(row + column, v);
  });
}

template <class L, class A>
__global__ void forward(const A* scores, A* weights, DropoutMask mask, WeightsShape shape) {
  wait_for_previous();
  using T = Number<A>;
  const auto key = mask.key();
  const T scale = static_cast<T>(shape.scale), kept = static_cast<T>(mask.scale);
  const int lane = threadIdx.x % 32, length = static_cast<int>(shape.length);
  for_each_token<32>(shape.rows, [&](int64_t row, bool exists) {
    const int seen = columns_seen(shape, row);
    const int64_t first = row * length;
    T w[L::kHeld];
    load_seen<L>(scores + first, lane, seen, w);
    softmax<L>(w, lane, seen, scale);
    if (!exists) return;
    store_row<L>(weights + first, lane, seen, length, [&](int slot, int column) {
      return mask.keeps(key, first + column) ? w[slot] * kept : T(0);
    });
  });
}

// With p = softmax(scale · s) and d the gradient of p, scale · p ⊙ (d − ⟨p, d⟩).
template <class L, class A>
__global__ void backward(const A* scores, const A* dweights, A* dscores, DropoutMask mask,
                         WeightsShape shape) {
  wait_for_previous();
  using T = Number<A>;
  const auto key = mask.key();
  const T scale = static_cast<T>(shape.scale), kept = static_cast<T>(mask.scale);
  const int lane = threadIdx.x % 32, length = static_cast<int>(shape.length);
  for_each_token<32>(shape.rows, [&](int64_t row, bool exists) {
    const int seen = columns_seen(shape, row);
    const int64_t first = row * length;
    T p[L::kHeld], d[L::kHeld];
    load_seen<L>(scores + first, lane, seen, p);
    load_seen<L>(dweights + first, lane, seen, d);
    softmax<L>(p, lane, seen, scale);
    T inner = 0;
    L::for_each_run(lane, seen, [&](int slot, int column) {
#pragma unroll
      for (int i = 0; i < L::kVector; ++i) {
        const bool comes = column + i < seen && mask.keeps(key, first + column + i);
        d[slot + i] = comes ? d[slot + i] * kept : T(0);
        inner += p[slot + i] * d[slot + i];
      }
    });
    inner = group_sum<32>(inner);
    if (!exists) return;
    store_row<L>(dscores + first, lane, seen, length,
                 [&](int slot, int) { return scale * p[slot] * (d[slot] - inner); });
  });
}

// f(columns) with the smallest Columns that hold a row; `tensors` are those that are read and written.
template <class F, class... A>
void with_weights(int64_t length, F&& f, const A*... tensors) {
  if constexpr ((!std::is_same_v<A, double> &&
                 ...)) {  // double is for verification: one form is enough
    const auto addresses = (reinterpret_cast<uintptr_t>(tensors) | ...);
    if (length % 4 == 0 && addresses % 16 == 0) {
      if (length <= 128) return f(Columns<4, 32, 1>());
      if (length <= 256) return f(Columns<4, 32, 2>());
      if (length <= 512) return f(Columns<4, 32, 4>());
      return f(Columns<4, 32, kMostPositions / 128>());
    }
    if (length <= 256) return f(Columns<1, 32, 8>());
  }
  f(Columns<1, 32, kMostPositions / 32>());
}

Grid grid_for(const WeightsShape& shape) {
  return {blocks_for(shape.rows, 32, most_blocks()), kThreads};
}

}  // namespace

template <class A>
void dropped_softmax_forward(CudaStream stream, const A* scores, A* weights,
                             const DropoutMask& mask, const WeightsShape& shape) {
  if (shape.rows == 0) return;
  const auto run = [&]<class L>(L) {
    launch(stream, grid_for(shape), forward<L, A>, scores, weights, mask, shape);
  };
  with_weights(shape.length, run, scores, weights);
  check_launch("dropped_softmax_forward");
}

template <class A>
void dropped_softmax_backward(CudaStream stream, const A* scores, const A* dweights, A* dscores,
                              const DropoutMask& mask, const WeightsShape& shape) {
  if (shape.rows == 0) return;
  const auto run = [&]<class L>(L) {
    launch(stream, grid_for(shape), backward<L, A>, scores, dweights, dscores, mask, shape);
  };
  with_weights(shape.length, run, scores, dweights, dscores);
  check_launch("dropped_softmax_backward");
}

#define GEORES_INSTANTIATE(A)                                                                    \
  template void dropped_softmax_forward(CudaStream, const A*, A*, const DropoutMask&,            \
                                        const WeightsShape&);                                    \
  template void dropped_softmax_backward(CudaStream, const A*, const A*, A*, const DropoutMask&, \
                                         const WeightsShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(BFloat16)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
