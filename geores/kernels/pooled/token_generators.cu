// nvcc: -prec-div=false
#include "geores/kernels/pooled/token_generators.h"

#include "geores/kernels/pooled/generators.cuh"
#include "geores/kernels/pooled/raw_hybrid.cuh"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kRowThreads = 128;
constexpr int kColumnThreads = 256;  // at most; one thread for each column
constexpr int kHybridThreads = 128;
constexpr int kAhead = 4;  // loads, or vectors, in flight at a time

int64_t tokens_of(const GeneratorShape& s) { return static_cast<int64_t>(s.sequences) * s.length; }

int64_t blocks_of_tokens(const GeneratorShape& s) {
  return (tokens_of(s) + kTokensAtOnce - 1) / kTokensAtOnce;
}

int column_threads(int columns) { return std::min((columns + 31) / 32 * 32, kColumnThreads); }

// The weights of a packed row; null if the row has none.
template <class T>
__device__ inline T* hidden_row(const Generators<T>& p, const GeneratorShape& s, int row) {
  if (row < s.units()) return p.nets[row / s.hidden].hidden + row % s.hidden * s.in;
  return row == s.units() ? p.gate : nullptr;
}

// One block for each row of either packed matrix.
template <class T, class A>
__global__ void pack_rows(Generators<const T> p, A* packed, A* packed_outputs, GeneratorShape s,
                          int columns) {
  wait_for_previous();
  if (static_cast<int>(blockIdx.x) < columns) {
    const int row = blockIdx.x;
    const T* from = hidden_row(p, s, row);
    for (int i = threadIdx.x; i < s.in; i += blockDim.x)
      packed[row * s.in + i] = As<A>::from(from ? from[i] : T(0));
    return;
  }
  const int output = static_cast<int>(blockIdx.x) - columns;
  int row = 0;
  const int net = output < s.all_outputs() ? net_of(s, output, row) : -1;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    const bool there = net >= 0 && i / s.hidden == net;
    packed_outputs[output * columns + i] =
        As<A>::from(there ? p.nets[net].output[row * s.hidden + i % s.hidden] : T(0));
  }
}

template <class T>
__global__ void unpack_hidden_rows(const T* dpacked, Generators<T> gradients, GeneratorShape s) {
  wait_for_previous();
  const int row = blockIdx.x;
  T* to = hidden_row(gradients, s, row);
  if (!to) return;
  for (int i = threadIdx.x; i < s.in; i += blockDim.x) to[i] += dpacked[row * s.in + i];
}

template <class T>
__global__ void unpack_output_rows(const T* dpacked, Generators<T> gradients, GeneratorShape s,
                                   int columns) {
  wait_for_previous();
  int row;
  const int net = net_of(s, blockIdx.x, row);
  for (int i = threadIdx.x; i < s.hidden; i += blockDim.x)
    gradients.nets[net].output[row * s.hidden + i] +=
        dpacked[blockIdx.x * columns + net * s.hidden + i];
}

// One block for kTokensAtOnce tokens, one thread for each column.
template <class T, class A>
__global__ void __launch_bounds__(kColumnThreads)
    gelu_forward_columns(Generators<const T> p, const T* hidden, A* active, GeneratorShape s,
                         int64_t tokens, int columns) {
  wait_for_previous();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTokensAtOnce;
  const int count = static_cast<int>(min(tokens - first, static_cast<int64_t>(kTokensAtOnce)));
  for (int column = threadIdx.x; column < columns; column += blockDim.x) {
    const bool unit = column < s.units();
    const T bias = unit ? p.nets[column / s.hidden].hidden_bias[column % s.hidden] : T(0);
#pragma unroll 8
    for (int t = 0; t < count; ++t) {
      const auto at = (first + t) * columns + column;
      active[at] = As<A>::from(unit ? gelu(hidden[at] + bias) : T(0));
    }
  }
}

template <class T, class A>
__global__ void __launch_bounds__(kColumnThreads)
    gelu_backward_columns(Generators<const T> p, const T* hidden, const T* dactive, A* dhidden,
                          Generators<T> gradients, GeneratorShape s, int64_t tokens, int columns) {
  wait_for_previous();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTokensAtOnce;
  const int count = static_cast<int>(min(tokens - first, static_cast<int64_t>(kTokensAtOnce)));
  for (int column = threadIdx.x; column < columns; column += blockDim.x) {
    const bool unit = column < s.units();
    const int net = unit ? column / s.hidden : 0, index = column % s.hidden;
    const T bias = unit ? p.nets[net].hidden_bias[index] : T(0);
    T sum = 0;
#pragma unroll 8
    for (int t = 0; t < count; ++t) {
      const auto at = (first + t) * columns + column;
      const T d = unit ? dactive[at] * gelu_slope(hidden[at] + bias) : T(0);
      dhidden[at] = As<A>::from(d);
      sum += d;
    }
    if (unit) atomicAdd(gradients.nets[net].hidden_bias + index, sum);
  }
}

// How many perceptrons a block goes through at a time.
__host__ __device__ constexpr int nets_together(const GeneratorShape& s) {
  return s.units() <= kMostUnitsTogether ? s.count : 1;
}

// The shared memory of a block: biases of units, weights and biases of outputs, activations of the
// units that it has at a time, outputs of its tokens, and gate logits. Rows of tokens have an odd
// length, so that lanes that read the same column use different banks.
template <class T>
struct TokenWorkspace {
  T *unit_bias, *weights, *output_bias, *active, *raw, *logit;
  int stride;

  static size_t bytes(const GeneratorShape& s) {
    const int outputs = s.all_outputs(), units = nets_together(s) * s.hidden;
    return static_cast<size_t>(units + outputs * (s.hidden + 1) +
                               kTokensAtOnce * ((units | 1) + outputs + 1)) *
           sizeof(T);
  }

  __device__ TokenWorkspace(unsigned char* memory, const GeneratorShape& s)
      : unit_bias(reinterpret_cast<T*>(memory)),
        weights(unit_bias + nets_together(s) * s.hidden),
        output_bias(weights + s.all_outputs() * s.hidden),
        active(output_bias + s.all_outputs()),
        raw(active + kTokensAtOnce * ((nets_together(s) * s.hidden) | 1)),
        logit(raw + kTokensAtOnce * s.all_outputs()),
        stride((nets_together(s) * s.hidden) | 1) {}
};

// The outputs of the perceptrons from net `first_net` on, as many as the workspace holds, for `count`
// tokens from `hidden` on. All threads compute GELU; a warp computes an output, with one token in
// each lane. The gate's logit is in the column behind the last perceptron.
template <class T>
__device__ inline void compute_outputs(const Generators<const T>& p, const T* hidden,
                                       const TokenWorkspace<T>& w, const GeneratorShape& s,
                                       int first_net, int count, int columns) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first = first_net * s.hidden, end = first + nets_together(s) * s.hidden;
  for (int i = first + threadIdx.x; i < end; i += kHybridThreads)
    w.unit_bias[i - first] = p.nets[i / s.hidden].hidden_bias[i % s.hidden];
  const T gate_bias = p.gate_bias[0];
  __syncthreads();

  const int begin_column = first / 4 * 4;  // whole vectors, of a row; rows are contiguous
  const int end_column = end == s.units() ? columns : (end + 3) / 4 * 4;
  const int vectors = (end_column - begin_column) / 4;
  for (int begin = threadIdx.x; begin < count * vectors; begin += kAhead * kHybridThreads) {
    T v[kAhead][4];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int i = begin + a * kHybridThreads;
      if (i < count * vectors)
        load_values<4>(hidden + i / vectors * columns + begin_column + i % vectors * 4, v[a]);
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int i = begin + a * kHybridThreads;
      if (i >= count * vectors) break;
      const int token = i / vectors, column = begin_column + i % vectors * 4;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int unit = column + j;
        if (unit >= first && unit < end)
          w.active[token * w.stride + unit - first] = gelu(v[a][j] + w.unit_bias[unit - first]);
        else if (unit == s.units())
          w.logit[token] = v[a][j] + gate_bias;
      }
    }
  }
  __syncthreads();

  const int outputs = s.all_outputs(), first_output = outputs_before(s, first_net),
            end_output = end == s.units() ? outputs : outputs_before(s, first_net + 1);
  if (lane < count)
    for (int output = first_output + warp; output < end_output; output += kHybridThreads / 32) {
      int row;
      const int net = net_of(s, output, row);
      const T* active = w.active + lane * w.stride + (net - first_net) * s.hidden;
      const T* weights = w.weights + output * s.hidden;
      T sum = w.output_bias[output];
#pragma unroll 8
      for (int i = 0; i < s.hidden; ++i) sum += weights[i] * active[i];
      w.raw[lane * outputs + output] = sum;
    }
  __syncthreads();
}

// One block for kTokensAtOnce tokens; one warp makes the operators.
template <int N, class T>
__global__ void __launch_bounds__(kHybridThreads)
    hybrid_forward(Generators<const T> p, const T* hidden, const T* entropies, T* raw, T* g,
                   T* penalty, T penalty_weight, GeneratorShape s, int64_t tokens, int columns) {
  wait_for_previous();
  GEORES_SHARED_BYTES(memory);
  const TokenWorkspace<T> w(memory, s);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTokensAtOnce;
  const int count = static_cast<int>(min(tokens - first, static_cast<int64_t>(kTokensAtOnce)));
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, outputs = s.all_outputs();
  const bool there = lane < count;
  const T entropy = entropies && warp == 0 && there ? entropies[first + lane] : T(0);
  for (int i = threadIdx.x; i < outputs * s.hidden; i += kHybridThreads) {
    int row;
    const int net = net_of(s, i / s.hidden, row);
    w.weights[i] = p.nets[net].output[row * s.hidden + i % s.hidden];
    if (i % s.hidden == 0) w.output_bias[i / s.hidden] = p.nets[net].output_bias[row];
  }
  for (int net = 0; net < s.count; net += nets_together(s))
    compute_outputs(p, hidden + first * columns, w, s, net, count, columns);

  for (int i = threadIdx.x; i < count * outputs; i += kHybridThreads)
    raw[first * outputs + i] = w.raw[i];
  if (warp > 0) return;
  T defect = 0;
  if (there) {
    const auto gate = gate_from(w.logit[lane], entropy);
    defect = manifold::gate_penalty(gate.gamma);
    const auto matrix =
        manifold::hybrid_operator(RawHybrid<N, T>(w.raw + lane * outputs, gate.gamma).p);
#pragma unroll
    for (int i = 0; i < N; ++i) store_values<N>(g + ((first + lane) * N + i) * N, &matrix.at[i][0]);
  }
  defect = group_sum<32>(defect);
  if (lane == 0) penalty[blockIdx.x] = penalty_weight * defect;
}

// One block for kTokensAtOnce tokens. One warp does the operators. Then there is one thread for
// each column of `hidden`, which holds its part of the output layer in registers.
template <int N, class T, class A>
__global__ void __launch_bounds__(kColumnThreads)
    hybrid_backward(Generators<const T> p, const T* hidden, const T* entropies, const T* raw,
                    const T* dg, const T* dpenalty, int64_t dpenalty_stride, T penalty_weight,
                    A* dhidden, T* dentropies, Generators<T> gradients, GeneratorShape s,
                    int64_t tokens, int columns) {
  wait_for_previous();
  constexpr int all = 3 * N + 1;
  __shared__ T draw[kTokensAtOnce][all], dlogit[kTokensAtOnce];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTokensAtOnce;
  const int count = static_cast<int>(min(tokens - first, static_cast<int64_t>(kTokensAtOnce)));
  const int lane = threadIdx.x, units = s.units();
  if (lane < kTokensAtOnce && lane < count) {
    const auto t = first + lane;
    const auto gate =
        gate_from(hidden[t * columns + units] + p.gate_bias[0], entropies ? entropies[t] : T(0));
    const T share = dpenalty ? dpenalty[blockIdx.x * dpenalty_stride] * penalty_weight : T(0);
    const auto d = raw_hybrid_backward<N>(raw + t * all, gate, dg + t * (N * N), share, draw[lane]);
    dlogit[lane] = d.logit;
    if (dentropies) dentropies[t] = d.entropy;
  }
  __syncthreads();

  for (int column = threadIdx.x; column < columns; column += blockDim.x) {
    if (column >= units) {  // the gate's column, and those that pad
      T sum = 0;
      for (int t = 0; t < count; ++t) {
        const T d = column == units ? dlogit[t] : T(0);
        dhidden[(first + t) * columns + column] = As<A>::from(d);
        sum += d;
      }
      if (column == units) atomicAdd(gradients.gate_bias, sum);
      continue;
    }
    const int net = column / s.hidden, index = column % s.hidden;
    const int before = outputs_before(s, net), outputs = s.outputs[net];
    const T bias = p.nets[net].hidden_bias[index];
    T weights[N], dweights[N] = {}, dbias = 0;
#pragma unroll
    for (int j = 0; j < N; ++j)
      weights[j] = j < outputs ? p.nets[net].output[j * s.hidden + index] : T(0);
    for (int begin = 0; begin < count; begin += 2 * kAhead) {
      T z[2 * kAhead];
#pragma unroll
      for (int a = 0; a < 2 * kAhead; ++a)
        if (begin + a < count) z[a] = hidden[(first + begin + a) * columns + column] + bias;
#pragma unroll
      for (int a = 0; a < 2 * kAhead; ++a) {
        const int t = begin + a;
        if (t >= count) break;
        const T active = gelu(z[a]);
        T d = 0;
#pragma unroll
        for (int j = 0; j < N; ++j)
          if (j < outputs) {
            const T back = draw[t][before + j];
            d += back * weights[j];
            dweights[j] += back * active;
          }
        d *= gelu_slope(z[a]);
        dbias += d;
        dhidden[(first + t) * columns + column] = As<A>::from(d);
      }
    }
    atomicAdd(gradients.nets[net].hidden_bias + index, dbias);
#pragma unroll
    for (int j = 0; j < N; ++j)
      if (j < outputs) atomicAdd(gradients.nets[net].output + j * s.hidden + index, dweights[j]);
  }
  if (threadIdx.x < all) {
    int row;
    const int net = net_of(s, threadIdx.x, row);
    T sum = 0;
    for (int t = 0; t < count; ++t) sum += draw[t][threadIdx.x];
    atomicAdd(gradients.nets[net].output_bias + row, sum);
  }
}

}  // namespace

template <class T, class A>
void pack_perceptrons(CudaStream stream, const Generators<const T>& p, A* packed, A* packed_outputs,
                      const GeneratorShape& s) {
  const int columns = hidden_columns(s, p.gate);
  launch(stream, {columns + (packed_outputs ? in_eights(s.all_outputs()) : 0), kRowThreads},
         pack_rows<T, A>, p, packed, packed_outputs, s, columns);
  check_launch("pack_perceptrons");
}

template <class T>
void unpack_hidden(CudaStream stream, const T* dpacked, const Generators<T>& gradients,
                   const GeneratorShape& s) {
  launch(stream, {hidden_columns(s, gradients.gate), kRowThreads}, unpack_hidden_rows<T>, dpacked,
         gradients, s);
  check_launch("unpack_hidden");
}

template <class T>
void unpack_outputs(CudaStream stream, const T* dpacked, const Generators<T>& gradients,
                    const GeneratorShape& s) {
  launch(stream, {s.all_outputs(), kRowThreads}, unpack_output_rows<T>, dpacked, gradients, s,
         hidden_columns(s, gradients.gate));
  check_launch("unpack_outputs");
}

template <class T, class A>
void hidden_gelu_forward(CudaStream stream, const Generators<const T>& p, const T* hidden,
                         A* active, const GeneratorShape& s) {
  const int columns = hidden_columns(s, p.gate);
  launch(stream, {blocks_of_tokens(s), column_threads(columns)}, gelu_forward_columns<T, A>, p,
         hidden, active, s, tokens_of(s), columns);
  check_launch("hidden_gelu_forward");
}

template <class T, class A>
void hidden_gelu_backward(CudaStream stream, const Generators<const T>& p, const T* hidden,
                          const T* dactive, A* dhidden, const Generators<T>& gradients,
                          const GeneratorShape& s) {
  const int columns = hidden_columns(s, p.gate);
  launch(stream, {blocks_of_tokens(s), column_threads(columns)}, gelu_backward_columns<T, A>, p,
         hidden, dactive, dhidden, gradients, s, tokens_of(s), columns);
  check_launch("hidden_gelu_backward");
}

template <class T>
void token_hybrid_forward(CudaStream stream, const Generators<const T>& p, const T* hidden,
                          const T* entropies, T* raw, T* g, T* penalty, T penalty_weight, int n,
                          const GeneratorShape& s) {
  with_operator_size(n, [&](auto size) {
    launch(stream, {blocks_of_tokens(s), kHybridThreads, TokenWorkspace<T>::bytes(s)},
           hybrid_forward<size.value, T>, p, hidden, entropies, raw, g, penalty, penalty_weight, s,
           tokens_of(s), hidden_columns(s, true));
  });
  check_launch("token_hybrid_forward");
}

template <class T, class A>
void token_hybrid_backward(CudaStream stream, const Generators<const T>& p, const T* hidden,
                           const T* entropies, const T* raw, const T* dg, const T* dpenalty,
                           int64_t dpenalty_stride, T penalty_weight, A* dhidden, T* dentropies,
                           const Generators<T>& gradients, int n, const GeneratorShape& s) {
  const int columns = hidden_columns(s, true);
  with_operator_size(n, [&](auto size) {
    launch(stream, {blocks_of_tokens(s), column_threads(columns)},
           hybrid_backward<size.value, T, A>, p, hidden, entropies, raw, dg, dpenalty,
           dpenalty_stride, penalty_weight, dhidden, dentropies, gradients, s, tokens_of(s),
           columns);
  });
  check_launch("token_hybrid_backward");
}

#define GEORES_INSTANTIATE(T)                                                                      \
  template void unpack_hidden(CudaStream, const T*, const Generators<T>&, const GeneratorShape&);  \
  template void unpack_outputs(CudaStream, const T*, const Generators<T>&, const GeneratorShape&); \
  template void token_hybrid_forward(CudaStream, const Generators<const T>&, const T*, const T*,   \
                                     T*, T*, T*, T, int, const GeneratorShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

#define GEORES_INSTANTIATE(T, A)                                                                  \
  template void pack_perceptrons(CudaStream, const Generators<const T>&, A*, A*,                  \
                                 const GeneratorShape&);                                          \
  template void hidden_gelu_forward(CudaStream, const Generators<const T>&, const T*, A*,         \
                                    const GeneratorShape&);                                       \
  template void hidden_gelu_backward(CudaStream, const Generators<const T>&, const T*, const T*,  \
                                     A*, const Generators<T>&, const GeneratorShape&);            \
  template void token_hybrid_backward(CudaStream, const Generators<const T>&, const T*, const T*, \
                                      const T*, const T*, const T*, int64_t, T, A*, T*,           \
                                      const Generators<T>&, int, const GeneratorShape&);
GEORES_INSTANTIATE(float, float)
GEORES_INSTANTIATE(float, BFloat16)
GEORES_INSTANTIATE(double, double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
