#include "geores/kernels/updates/delta_streams.h"

#include "geores/kernels/cuda/activations.cuh"
#include "geores/kernels/streams/held_tokens.cuh"

namespace geores::kernels {
namespace {

using namespace device;

// ‖y‖ as torch::nn::functional::normalize divides by it.
template <class T>
struct Length {
  T value;
  bool least;  // the length is smaller than the divisor, which then does not depend on y

  __device__ explicit Length(T squares) : value(sqrt(squares)), least(!(value > T(kSmallestNorm))) {
    if (least) value = T(kSmallestNorm);
  }
};

template <class T>
__device__ inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

template <int N, int V, class T>
__global__ void __launch_bounds__(kWideBlock)
    sum_forward(const T* weight, const T* x, T* read, int64_t tokens, int d) {
  wait_for_previous();
  T share[N];
#pragma unroll
  for (int j = 0; j < N; ++j) share[j] = weight[j];
  for_each_warp_token(tokens, [&](int64_t t) {
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> in;
      T sum[V];
      in.load(x + t * N * d, column, d);
      collect(share, in, sum);
      store_values<V>(read + t * d + column, sum);
    });
  });
}

template <int N, int V, class T, class A>
__global__ void __launch_bounds__(kWideBlock)
    delta_forward(const T* x, const A* y, const T* l, T* out, int64_t tokens, int d, bool held) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  T* mine = reinterpret_cast<T*>(memory) + threadIdx.x / 32 * N * d;
  for_each_warp_token(tokens, [&](int64_t t) {
    const T* token = x + t * N * d;
    if (held) {
      copy_token<N, V>(token, mine, d);
      wait_for_copies();
      token = mine;
    }
    T squares = 0, along[N] = {};
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> in;
      T branch[V];
      in.load(token, column, d);
      load_values<V>(y + t * d + column, branch);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        squares += branch[k] * branch[k];
#pragma unroll
        for (int j = 0; j < N; ++j) along[j] += branch[k] * in.at[j][k];
      }
    });
    const Length<T> length(group_sum<32>(squares));
    const T* mine_l = l + t * (N + 1);
    const T strength = T(2) * sigmoid(mine_l[0]);
    // X'_j = X_j + step_j y
#pragma unroll
    for (int j = 0; j < N; ++j)
      along[j] = strength * (mine_l[1 + j] - group_sum<32>(along[j]) / length.value) / length.value;
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> in;
      T branch[V];
      in.load(token, column, d);
      load_values<V>(y + t * d + column, branch);
#pragma unroll
      for (int j = 0; j < N; ++j) {
#pragma unroll
        for (int k = 0; k < V; ++k) in.at[j][k] += along[j] * branch[k];
        store_values<V>(out + (t * N + j) * d + column, in.at[j]);
      }
    });
  });
}

template <int N, int V, class T, class A>
__global__ void __launch_bounds__(kWideBlock)
    delta_backward(const T* x, const A* y, const T* l, const T* dout, A* dy, T* dl, int64_t tokens,
                   int d, bool held) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  T *mine = reinterpret_cast<T*>(memory) + threadIdx.x / 32 * 2 * N * d, *mine_back = mine + N * d;
  for_each_warp_token(tokens, [&](int64_t t) {
    const T *token = x + t * N * d, *gradient = dout + t * N * d;
    if (held) {
      copy_token<N, V>(token, mine, d);
      copy_token<N, V>(gradient, mine_back, d);
      wait_for_copies();
      token = mine, gradient = mine_back;
    }
    T squares = 0, along[N] = {}, back[N] = {};  // ⟨k, X_j⟩ and ⟨k, dX'_j⟩
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> in, g;
      T branch[V];
      in.load(token, column, d);
      g.load(gradient, column, d);
      load_values<V>(y + t * d + column, branch);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        squares += branch[k] * branch[k];
#pragma unroll
        for (int j = 0; j < N; ++j) {
          along[j] += branch[k] * in.at[j][k];
          back[j] += branch[k] * g.at[j][k];
        }
      }
    });
    const Length<T> length(group_sum<32>(squares));
    const T* mine_l = l + t * (N + 1);
    const T half = sigmoid(mine_l[0]), strength = T(2) * half;
    T step[N], erase[N], dstrength = 0, radial = 0;  // radial: ⟨k, dk⟩
#pragma unroll
    for (int j = 0; j < N; ++j) {
      along[j] = group_sum<32>(along[j]) / length.value;
      back[j] = group_sum<32>(back[j]) / length.value;
      const T miss = mine_l[1 + j] - along[j];
      step[j] = strength * miss;
      erase[j] = -strength * back[j];
      dstrength += miss * back[j];
      radial += step[j] * back[j] + erase[j] * along[j];
    }
    if (length.least) radial = T(0);
    if (threadIdx.x % 32 == 0) {
      dl[t * (N + 1)] = dstrength * strength * (T(1) - half);
#pragma unroll
      for (int j = 0; j < N; ++j) dl[t * (N + 1) + 1 + j] = -erase[j];
    }
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> in, g;
      T branch[V], along_y[V];
      in.load(token, column, d);
      g.load(gradient, column, d);
      load_values<V>(y + t * d + column, branch);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        T dk = -radial * (branch[k] / length.value);
#pragma unroll
        for (int j = 0; j < N; ++j) dk += step[j] * g.at[j][k] + erase[j] * in.at[j][k];
        along_y[k] = dk / length.value;
      }
      store_values<V>(dy + t * d + column, along_y);
    });
  });
}

// dX_j = dX'_j − dv_j k + weight_j dread: the delta rule's part with the other.
template <int N, int V, class T, class A>
__global__ void __launch_bounds__(kWideBlock)
    sum_backward(StreamSumBackward<T, A> p, int64_t tokens, int d) {
  wait_for_previous();
  __shared__ T sums[kWideWarps][N];
  T share[N], dshare[N] = {};
#pragma unroll
  for (int j = 0; j < N; ++j) share[j] = p.weight[j];
  for_each_warp_token(tokens, [&](int64_t t) {
    T erase[N] = {};  // for y
    if (p.y) {
      T squares = 0;
      for_each_run<V>(d, [&](int column) {
        T branch[V];
        load_values<V>(p.y + t * d + column, branch);
#pragma unroll
        for (int k = 0; k < V; ++k) squares += branch[k] * branch[k];
      });
      const Length<T> length(group_sum<32>(squares));
#pragma unroll
      for (int j = 0; j < N; ++j) erase[j] = -p.dl[t * (N + 1) + 1 + j] / length.value;
    }
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> in, g = {};
      T branch[V] = {}, dread[V];
      in.load(p.x + t * N * d, column, d);
      if (p.dout) g.load(p.dout + t * N * d, column, d);
      load_values<V>(p.dread + t * d + column, dread);
      if (p.y) load_values<V>(p.y + t * d + column, branch);
#pragma unroll
      for (int j = 0; j < N; ++j) {
#pragma unroll
        for (int k = 0; k < V; ++k) {
          dshare[j] += in.at[j][k] * dread[k];
          g.at[j][k] += share[j] * dread[k] + erase[j] * branch[k];
        }
        store_values<V>(p.dx + (t * N + j) * d + column, g.at[j]);
      }
    });
  });
  store_sums(dshare, sums[threadIdx.x / 32]);
  __syncthreads();
  if (threadIdx.x >= N) return;
  T sum = 0;
#pragma unroll
  for (int w = 0; w < kWideWarps; ++w) sum += sums[w][threadIdx.x];
  atomicAdd(p.dweight + threadIdx.x, sum);
}

}  // namespace

template <class T>
void stream_sum_forward(CudaStream stream, const T* weight, const T* x, T* read,
                        const StreamShape& s) {
  with_wide_streams<T>(WideStreams(), s, [&](auto n, auto w) {
    launch(stream, {wide_blocks(s.tokens), kWideBlock}, sum_forward<n.value, w.value, T>, weight, x,
           read, s.tokens, static_cast<int>(s.d));
  });
  check_launch("stream_sum_forward");
}

template <class T, class A>
void delta_streams_forward(CudaStream stream, const T* x, const A* y, const T* l, T* out,
                           const StreamShape& s) {
  with_wide_streams<T>(WideStreams(), s, [&](auto n, auto w) {
    const auto held = held_bytes<T>(s.n, s.d, 1);
    launch(stream, {wide_blocks(s.tokens), kWideBlock, held}, delta_forward<n.value, w.value, T, A>,
           x, y, l, out, s.tokens, static_cast<int>(s.d), held > 0);
  });
  check_launch("delta_streams_forward");
}

template <class T, class A>
void delta_streams_backward(CudaStream stream, const T* x, const A* y, const T* l, const T* dout,
                            A* dy, T* dl, const StreamShape& s) {
  with_wide_streams<T>(WideStreams(), s, [&](auto n, auto w) {
    const auto held = held_bytes<T>(s.n, s.d, 2);
    launch(stream, {wide_blocks(s.tokens), kWideBlock, held},
           delta_backward<n.value, w.value, T, A>, x, y, l, dout, dy, dl, s.tokens,
           static_cast<int>(s.d), held > 0);
  });
  check_launch("delta_streams_backward");
}

template <class T, class A>
void stream_sum_backward(CudaStream stream, const StreamSumBackward<T, A>& p,
                         const StreamShape& s) {
  // Each block adds to the weights' gradient at its end: few blocks, all of them at once.
  const int64_t at_once = 4 * blocks_for_sums();
  with_wide_streams<T>(WideStreams(), s, [&](auto n, auto w) {
    launch(stream, {wide_blocks(s.tokens, at_once), kWideBlock},
           sum_backward<n.value, w.value, T, A>, p, s.tokens, static_cast<int>(s.d));
  });
  check_launch("stream_sum_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                                   \
  template void delta_streams_forward(CudaStream, const T*, const A*, const T*, T*,                \
                                      const StreamShape&);                                         \
  template void delta_streams_backward(CudaStream, const T*, const A*, const T*, const T*, A*, T*, \
                                       const StreamShape&);                                        \
  template void stream_sum_backward(CudaStream, const StreamSumBackward<T, A>&, const StreamShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE
template void stream_sum_forward(CudaStream, const float*, const float*, float*,
                                 const StreamShape&);
template void stream_sum_forward(CudaStream, const double*, const double*, double*,
                                 const StreamShape&);

}  // namespace geores::kernels
