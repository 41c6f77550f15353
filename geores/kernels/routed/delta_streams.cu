#include "geores/kernels/routed/delta_streams.h"

#include "geores/kernels/cuda/activations.cuh"
#include "geores/kernels/streams/held_tokens.cuh"

namespace geores::kernels {
namespace {

using namespace device;

using Counts = std::integer_sequence<int, 2, 3, 4, 5, 6, 7, 8>;  // is_wide_stream_count

// ‖y‖ as torch::nn::functional::normalize divides by it.
template <class T>
struct Length {
  T value;
  bool least;  // the length is smaller than the divisor, which then does not depend on y

  __device__ explicit Length(T squares) : value(sqrt(squares)), least(!(value > T(kSmallestNorm))) {
    if (least) value = T(kSmallestNorm);
  }
};

template <int N, int V, class T, class A>
__global__ void __launch_bounds__(kWideBlock)
    delta_forward(const T* x, const A* y, const T* beta, const T* v, T* out, int64_t tokens, int d,
                  bool held) {
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
    // X'_j = X_j + step_j y
#pragma unroll
    for (int j = 0; j < N; ++j)
      along[j] = beta[t] * (v[t * N + j] - group_sum<32>(along[j]) / length.value) / length.value;
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
    delta_backward(const T* x, const A* y, const T* beta, const T* v, const T* dout, T* dx, A* dy,
                   T* dbeta, T* dv, int64_t tokens, int d, bool held) {
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
    const T strength = beta[t];
    T step[N], erase[N], dstrength = 0, radial = 0;  // radial: ⟨k, dk⟩
#pragma unroll
    for (int j = 0; j < N; ++j) {
      along[j] = group_sum<32>(along[j]) / length.value;
      back[j] = group_sum<32>(back[j]) / length.value;
      const T miss = v[t * N + j] - along[j];
      step[j] = strength * miss;
      erase[j] = -strength * back[j];
      dstrength += miss * back[j];
      radial += step[j] * back[j] + erase[j] * along[j];
    }
    if (length.least) radial = T(0);
    if (threadIdx.x % 32 == 0) {
      dbeta[t] = dstrength;
#pragma unroll
      for (int j = 0; j < N; ++j) dv[t * N + j] = -erase[j];
    }
    for_each_run<V>(d, [&](int column) {
      Piece<N, V, T> in, g;
      T branch[V], along_y[V];
      in.load(token, column, d);
      g.load(gradient, column, d);
      load_values<V>(y + t * d + column, branch);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        branch[k] /= length.value;
        T dk = -radial * branch[k];
#pragma unroll
        for (int j = 0; j < N; ++j) {
          dk += step[j] * g.at[j][k] + erase[j] * in.at[j][k];
          g.at[j][k] += erase[j] * branch[k];
        }
        along_y[k] = dk / length.value;
      }
#pragma unroll
      for (int j = 0; j < N; ++j) store_values<V>(dx + (t * N + j) * d + column, g.at[j]);
      store_values<V>(dy + t * d + column, along_y);
    });
  });
}

}  // namespace

template <class T, class A>
void delta_streams_forward(CudaStream stream, const T* x, const A* y, const T* beta, const T* v,
                           T* out, const StreamShape& s) {
  with_wide_streams<T>(Counts(), s, [&](auto n, auto w) {
    const auto held = held_bytes<T>(s.n, s.d, 1);
    launch(stream, {wide_blocks(s.tokens), kWideBlock, held}, delta_forward<n.value, w.value, T, A>,
           x, y, beta, v, out, s.tokens, static_cast<int>(s.d), held > 0);
  });
  check_launch("delta_streams_forward");
}

template <class T, class A>
void delta_streams_backward(CudaStream stream, const T* x, const A* y, const T* beta, const T* v,
                            const T* dout, T* dx, A* dy, T* dbeta, T* dv, const StreamShape& s) {
  with_wide_streams<T>(Counts(), s, [&](auto n, auto w) {
    const auto held = held_bytes<T>(s.n, s.d, 2);
    launch(stream, {wide_blocks(s.tokens), kWideBlock, held},
           delta_backward<n.value, w.value, T, A>, x, y, beta, v, dout, dx, dy, dbeta, dv, s.tokens,
           static_cast<int>(s.d), held > 0);
  });
  check_launch("delta_streams_backward");
}

#define GEORES_INSTANTIATE(T, A)                                                              \
  template void delta_streams_forward(CudaStream, const T*, const A*, const T*, const T*, T*, \
                                      const StreamShape&);                                    \
  template void delta_streams_backward(CudaStream, const T*, const A*, const T*, const T*,    \
                                       const T*, T*, A*, T*, T*, const StreamShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
