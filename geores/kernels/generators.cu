#include "geores/kernels/generators.h"

#include "geores/kernels/device.cuh"
#include "geores/kernels/gelu.cuh"
#include "geores/kernels/summary.h"
#include "geores/manifold/hybrid.h"

namespace geores::kernels {
namespace {

using namespace device;

constexpr int kSequenceThreads = 512;

template <class T>
__device__ inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

template <class T>
__device__ inline T dot(const T* a, const T* b, int size) {  // by a warp, in all lanes
  T sum = 0;
#pragma unroll 4
  for (int i = threadIdx.x % 32; i < size; i += 32) sum += a[i] * b[i];
  return group_sum<32>(sum);
}

// The sum over a block, in all threads; all of them call.
template <class T>
__device__ inline T sum_over_block(T x) {
  __shared__ T total;
  if (threadIdx.x == 0) total = T(0);
  __syncthreads();
  x = group_sum<32>(x);
  if (threadIdx.x % 32 == 0) atomicAdd(&total, x);
  __syncthreads();
  x = total;
  __syncthreads();
  return x;
}

__device__ inline int net_of(const GeneratorShape& s, int output, int& place) {
  int net = 0;
  for (place = output; place >= s.outputs[net]; ++net) place -= s.outputs[net];
  return net;
}

template <class T>
struct Workspace {  // of one sequence, in shared memory
  T *mean, *hidden, *raw;

  __device__ Workspace(unsigned char* memory, const GeneratorShape& s)
      : mean(reinterpret_cast<T*>(memory)), hidden(mean + s.in), raw(hidden + s.units()) {}
};

template <class T>
size_t workspace_size(const GeneratorShape& s) {
  return static_cast<size_t>(s.in + s.units() + s.all_outputs()) * sizeof(T);
}

// The first weights that a thread will want of the hidden and of the output layer, asked for before
// what they are multiplied with is known: at this size a kernel is nothing but waiting.
constexpr int kEarly = 32, kEarlyOutputs = 16;

// mean and raw outputs of this block's sequence, kept and in the workspace.
template <class T>
__device__ inline void run_perceptrons(const Generators<const T>& p, const T* sums,
                                       const GeneratorState<T>& state, const Workspace<T>& w,
                                       const GeneratorShape& s) {
  constexpr int columns = 4, rows = kEarly / columns;  // of 32 columns each, for each lane
  const int64_t sequence = blockIdx.x;
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;
  const auto weight_at = [&](int unit, int i) {
    return p.nets[unit / s.hidden].hidden[unit % s.hidden * s.in + i];
  };
  T early[rows][columns];
#pragma unroll
  for (int r = 0; r < rows; ++r)
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      const int unit = warp + r * warps, i = lane + 32 * c;
      early[r][c] = unit < s.units() && i < s.in ? weight_at(unit, i) : T(0);
    }
  // A warp has every so many outputs, a lane one of their columns.
  const auto output_at = [&](int output, int i) {
    int row;
    const int index = net_of(s, output, row);
    return p.nets[index].output[row * s.hidden + i];
  };
  T early_outputs[kEarlyOutputs];
#pragma unroll
  for (int r = 0; r < kEarlyOutputs; ++r) {
    const int output = warp + r * warps;
    early_outputs[r] = output < s.all_outputs() && lane < s.hidden ? output_at(output, lane) : T(0);
  }
  for (int i = threadIdx.x; i < s.in; i += blockDim.x) {
    T sum = 0;
#pragma unroll
    for (int part = 0; part < kSummaryParts; ++part)
      sum += sums[(sequence * kSummaryParts + part) * s.in + i];
    w.mean[i] = state.mean[sequence * s.in + i] = sum / T(s.length);
  }
  __syncthreads();
  const auto finish_unit = [&](int unit, T sum) {
    const T z = group_sum<32>(sum) + p.nets[unit / s.hidden].hidden_bias[unit % s.hidden];
    if (lane != 0) return;
    state.hidden[sequence * s.units() + unit] = z;
    w.hidden[unit] = gelu(z);
  };
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const int unit = warp + r * warps;
    if (unit >= s.units()) break;
    T sum = 0;
#pragma unroll
    for (int c = 0; c < columns; ++c)
      if (lane + 32 * c < s.in) sum += early[r][c] * w.mean[lane + 32 * c];
    for (int i = lane + 32 * columns; i < s.in; i += 32) sum += weight_at(unit, i) * w.mean[i];
    finish_unit(unit, sum);
  }
  for (int unit = warp + rows * warps; unit < s.units(); unit += warps) {
    T sum = 0;
    for (int i = lane; i < s.in; i += 32) sum += weight_at(unit, i) * w.mean[i];
    finish_unit(unit, sum);
  }
  __syncthreads();
  const auto finish_output = [&](int output, T first) {
    int row;
    const int index = net_of(s, output, row);
    const T* hidden = w.hidden + index * s.hidden;
    T sum = lane < s.hidden ? first * hidden[lane] : T(0);
    for (int i = lane + 32; i < s.hidden; i += 32) sum += output_at(output, i) * hidden[i];
    sum = group_sum<32>(sum);
    if (lane == 0)
      w.raw[output] = state.raw[sequence * s.all_outputs() + output] =
          sum + p.nets[index].output_bias[row];
  };
#pragma unroll
  for (int r = 0; r < kEarlyOutputs; ++r)
    if (warp + r * warps < s.all_outputs()) finish_output(warp + r * warps, early_outputs[r]);
  for (int output = warp + kEarlyOutputs * warps; output < s.all_outputs(); output += warps)
    finish_output(output, lane < s.hidden ? output_at(output, lane) : T(0));
  __syncthreads();
}

// How the threads of a block share sums over the rows of a matrix: teams of a thread for each
// column.
struct Teams {
  int columns, count, team, first;

  __device__ explicit Teams(int wanted)
      : columns(min(wanted, static_cast<int>(blockDim.x))),
        count(blockDim.x / columns),
        team(threadIdx.x / columns),
        first(threadIdx.x % columns) {}

  // f(how many before it, row) for the first `Most` rows of this thread, then rest(row) for others.
  template <int Most, class F, class G>
  __device__ void for_each_row(int rows, F&& f, G&& rest) const {
    if (team >= count) return;
#pragma unroll
    for (int k = 0; k < Most; ++k)
      if (team + k * count < rows) f(k, team + k * count);
    for (int row = team + Most * count; row < rows; row += count) rest(row);
  }
};

// A column of the hidden layer's or, for a unit, of the output layer's weights.
template <class T>
struct GeneratorColumns {
  const Generators<const T>& p;
  const GeneratorShape& s;

  __device__ T hidden(int unit, int column) const {
    return p.nets[unit / s.hidden].hidden[unit % s.hidden * s.in + column];
  }
  __device__ T output(int unit, int row) const {
    return p.nets[unit / s.hidden].output[row * s.hidden + unit % s.hidden];
  }
  __device__ int outputs(int unit) const { return s.outputs[unit / s.hidden]; }
  __device__ int first_output(int unit) const {
    int first = 0;
    for (int i = 0; i < unit / s.hidden; ++i) first += s.outputs[i];
    return first;
  }
};

// This thread's first weights of the backward pass.
template <class T>
struct EarlyWeights {
  T hidden[kEarly], output[kEarlyOutputs];

  __device__ EarlyWeights(const Generators<const T>& p, const GeneratorShape& s) {
    const GeneratorColumns<T> weights{p, s};
    const Teams by_unit(s.units()), by_input(s.in);
    by_unit.for_each_row<kEarlyOutputs>(
        weights.outputs(by_unit.first),
        [&](int k, int row) { output[k] = weights.output(by_unit.first, row); }, [](int) {});
    by_input.for_each_row<kEarly>(
        s.units(), [&](int k, int unit) { hidden[k] = weights.hidden(unit, by_input.first); },
        [](int) {});
  }
};

// From the gradients of the raw outputs in the workspace to those of the hidden units and of the
// mean; dlogit is the gate's.
template <class T>
__device__ inline void run_perceptrons_back(const Generators<const T>& p,
                                            const GeneratorState<const T>& state,
                                            const Workspace<T>& w, const GeneratorRoom<T>& room,
                                            T dlogit, T* dmean, const GeneratorShape& s,
                                            const EarlyWeights<T>& early) {
  const int64_t sequence = blockIdx.x;
  const GeneratorColumns<T> weights{p, s};
  const Teams by_unit(s.units()), by_input(s.in);
  for (int i = threadIdx.x; i < s.all_outputs(); i += blockDim.x)
    room.raw[sequence * s.all_outputs() + i] = w.raw[i];
  for (int unit = threadIdx.x; unit < s.units(); unit += blockDim.x) w.hidden[unit] = T(0);
  for (int i = threadIdx.x; i < s.in; i += blockDim.x)
    w.mean[i] = p.gate ? dlogit * p.gate[i] : T(0);
  __syncthreads();
  for (int unit = by_unit.first; unit < s.units(); unit += by_unit.columns) {
    const T* raw = w.raw + weights.first_output(unit);
    const bool asked = unit == by_unit.first;
    T sum = 0;
    by_unit.for_each_row<kEarlyOutputs>(
        weights.outputs(unit),
        [&](int k, int row) {
          sum += raw[row] * (asked ? early.output[k] : weights.output(unit, row));
        },
        [&](int row) { sum += raw[row] * weights.output(unit, row); });
    atomicAdd(w.hidden + unit, sum);
  }
  __syncthreads();
  for (int unit = threadIdx.x; unit < s.units(); unit += blockDim.x) {
    const auto at = sequence * s.units() + unit;
    w.hidden[unit] = room.hidden[at] = w.hidden[unit] * gelu_slope(state.hidden[at]);
  }
  __syncthreads();
  for (int i = by_input.first; i < s.in; i += by_input.columns) {
    const bool asked = i == by_input.first;
    T sum = 0;
    by_input.for_each_row<kEarly>(
        s.units(),
        [&](int k, int unit) {
          sum += w.hidden[unit] * (asked ? early.hidden[k] : weights.hidden(unit, i));
        },
        [&](int unit) { sum += w.hidden[unit] * weights.hidden(unit, i); });
    atomicAdd(w.mean + i, sum);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < s.in; i += blockDim.x) dmean[sequence * s.in + i] = w.mean[i];
}

// One block for each hidden unit, each output, and the gate: Σ over sequences of what reaches it
// times what it read. Teams of threads share the sequences.
constexpr int kGradientThreads = 512;

template <class T, class Right>
__device__ inline void sum_over_sequences(const T* left, int stride, int sequences, int columns,
                                          T* row, T* bias, Right&& right) {
  extern __shared__ unsigned char memory[];
  auto* factors = reinterpret_cast<T*>(memory);  // what reaches it from each sequence
  auto* sums = factors + sequences;
  for (int b = threadIdx.x; b < sequences; b += blockDim.x)
    factors[b] = left[static_cast<int64_t>(b) * stride];
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sums[i] = T(0);
  __syncthreads();
  const int width = min(columns, static_cast<int>(blockDim.x)), teams = blockDim.x / width;
  const int team = threadIdx.x / width;
  if (team < teams)
    for (int i = threadIdx.x % width; i < columns; i += width) {
      T sum = 0;
#pragma unroll 8
      for (int b = team; b < sequences; b += teams) sum += factors[b] * right(b, i);
      atomicAdd(sums + i, sum);
    }
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += blockDim.x) row[i] = sums[i];
  if (threadIdx.x < 32) {
    T sum = 0;
    for (int b = threadIdx.x; b < sequences; b += 32) sum += factors[b];
    sum = group_sum<32>(sum);
    if (threadIdx.x == 0) *bias = sum;
  }
}

template <class T>
__global__ void __launch_bounds__(kGradientThreads)
    parameter_gradients(GeneratorState<const T> state, GeneratorRoom<T> room,
                        Generators<T> gradients, GeneratorShape s) {
  const int block = blockIdx.x, units = s.units(), outputs = s.all_outputs();
  const auto mean = [&](int b, int i) { return state.mean[b * s.in + i]; };
  if (block < units) {
    const auto& net = gradients.nets[block / s.hidden];
    const int row = block % s.hidden;
    sum_over_sequences(room.hidden + block, units, s.sequences, s.in, net.hidden + row * s.in,
                       net.hidden_bias + row, mean);
  } else if (block < units + outputs) {
    int row;
    const int index = net_of(s, block - units, row);
    const auto& net = gradients.nets[index];
    sum_over_sequences(room.raw + (block - units), outputs, s.sequences, s.hidden,
                       net.output + row * s.hidden, net.output_bias + row, [&](int b, int i) {
                         return gelu(state.hidden[b * units + index * s.hidden + i]);
                       });
  } else {
    sum_over_sequences(room.logit, 1, s.sequences, s.in, gradients.gate, gradients.gate_bias, mean);
  }
}

template <class T>
void launch_parameter_gradients(Stream stream, const GeneratorState<const T>& state,
                                const GeneratorRoom<T>& room, const Generators<T>& gradients,
                                const GeneratorShape& s) {
  const int blocks = s.units() + s.all_outputs() + (gradients.gate ? 1 : 0);
  const auto shared = static_cast<size_t>(s.sequences + std::max(s.in, s.hidden)) * sizeof(T);
  parameter_gradients<<<blocks, kGradientThreads, shared, stream>>>(state, room, gradients, s);
}

// As torch::softplus and torch::nn::functional::normalize have it.
constexpr double kLinearFrom = 20, kSmallestNorm = 1e-12;

template <class T>
__device__ inline T softplus(T x) {
  return x > T(kLinearFrom) ? x : log1p(exp(x));
}

template <class T>
__device__ inline T softplus_slope(T x) {
  return x > T(kLinearFrom) ? T(1) : sigmoid(x);
}

// The generators of a hybrid operator from raw outputs [u | v | β | k].
template <int N, class T>
struct RawHybrid {
  manifold::HybridGenerators<T, N> p;
  T norm;  // of k, or what it was divided by

  __device__ RawHybrid(const T* raw, T gamma) {
    T squares = 0;
    for (int i = 0; i < N; ++i) {
      p.u[i] = raw[i];
      p.v[i] = raw[N + i];
      p.k[i] = raw[2 * N + 1 + i];
      squares += p.k[i] * p.k[i];
    }
    norm = sqrt(squares);
    if (!(norm > T(kSmallestNorm))) norm = T(kSmallestNorm);
    for (int i = 0; i < N; ++i) p.k[i] /= norm;
    p.beta = softplus(raw[2 * N]);
    p.gamma = gamma;
  }
};

template <int N, class T>
__global__ void __launch_bounds__(kSequenceThreads)
    hybrid_forward(Generators<const T> p, const T* sums, const T* entropies,
                   GeneratorState<T> state, T* g, T* gamma, T* penalty, T penalty_weight,
                   GeneratorShape s) {
  extern __shared__ unsigned char memory[];
  const Workspace<T> w(memory, s);
  run_perceptrons(p, sums, state, w, s);
  if (threadIdx.x >= 32) return;
  const int64_t sequence = blockIdx.x;
  const T logit = dot(p.gate, w.mean, s.in) + p.gate_bias[0];
  if (threadIdx.x > 0) return;
  T entropy = 0;
  if (entropies) {
    for (int part = 0; part < kSummaryParts; ++part)
      entropy += entropies[sequence * kSummaryParts + part];
    entropy /= T(s.length);
  }
  const T open = sigmoid(logit * (T(1) + entropy));
  state.logit[sequence] = logit;
  state.entropy[sequence] = entropy;
  gamma[sequence] = open;
  penalty[sequence] = penalty_weight * T(4) * open * (T(1) - open);
  const auto matrix = manifold::hybrid_operator(RawHybrid<N, T>(w.raw, open).p);
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) g[(sequence * N + i) * N + j] = matrix(i, j);
}

template <int N, class T>
__global__ void __launch_bounds__(kSequenceThreads)
    hybrid_backward(Generators<const T> p, GeneratorState<const T> state, const T* gamma,
                    const T* dg, const T* dpenalty, int64_t dpenalty_stride, T penalty_weight,
                    GeneratorRoom<T> room, T* dmean, T* dentropy, GeneratorShape s) {
  extern __shared__ unsigned char memory[];
  __shared__ T dlogit_shared;
  const Workspace<T> w(memory, s);
  const EarlyWeights<T> early(p, s);
  const int64_t sequence = blockIdx.x;
  if (threadIdx.x == 0) {
    const T* raw = state.raw + sequence * s.all_outputs();
    const T open = gamma[sequence], entropy = state.entropy[sequence];
    const RawHybrid<N, T> hybrid(raw, open);
    manifold::Matrix<T, N> cotangent;
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < N; ++j) cotangent(i, j) = dg[(sequence * N + i) * N + j];
    const auto d = manifold::hybrid_operator_backward(hybrid.p, cotangent);
    T along = 0;
    for (int i = 0; i < N; ++i) along += hybrid.p.k[i] * d.k[i];
    if (!(hybrid.norm > T(kSmallestNorm))) along = T(0);
    for (int i = 0; i < N; ++i) {
      w.raw[i] = d.u[i];
      w.raw[N + i] = d.v[i];
      w.raw[2 * N + 1 + i] = (d.k[i] - along * hybrid.p.k[i]) / hybrid.norm;
    }
    w.raw[2 * N] = d.beta * softplus_slope(raw[2 * N]);
    T dgamma = d.gamma;
    if (dpenalty)
      dgamma += dpenalty[sequence * dpenalty_stride] * penalty_weight * (T(4) - T(8) * open);
    const T dscaled = dgamma * open * (T(1) - open);
    dlogit_shared = dscaled * (T(1) + entropy);
    room.logit[sequence] = dlogit_shared;
    if (dentropy) dentropy[sequence] = dscaled * state.logit[sequence];
  }
  __syncthreads();
  run_perceptrons_back(p, state, w, room, dlogit_shared, dmean, s, early);
}

template <class T>
__global__ void __launch_bounds__(kSequenceThreads)
    erase_forward(Generators<const T> p, const T* sums, GeneratorState<T> state,
                  EraseArrays<T> erase, GeneratorShape s) {
  extern __shared__ unsigned char memory[];
  const Workspace<T> w(memory, s);
  run_perceptrons(p, sums, state, w, s);
  const int64_t sequence = blockIdx.x;
  const int width = s.outputs[0];
  T squares = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x) squares += w.raw[i] * w.raw[i];
  const T norm = fmax(sqrt(sum_over_block(squares)), T(kSmallestNorm));
  for (int i = threadIdx.x; i < width; i += blockDim.x)
    erase.k[sequence * width + i] = w.raw[i] / norm;
  if (threadIdx.x == 0) erase.beta[sequence] = T(2) * sigmoid(w.raw[width]);
}

template <class T>
__global__ void __launch_bounds__(kSequenceThreads)
    erase_backward(Generators<const T> p, GeneratorState<const T> state, EraseArrays<const T> erase,
                   EraseArrays<const T> derase, GeneratorRoom<T> room, T* dmean, GeneratorShape s) {
  extern __shared__ unsigned char memory[];
  const Workspace<T> w(memory, s);
  const EarlyWeights<T> early(p, s);
  const int64_t sequence = blockIdx.x;
  const int width = s.outputs[0];
  const T* raw = state.raw + sequence * s.all_outputs();
  const T *k = erase.k + sequence * width, *dk = derase.k + sequence * width;
  T squares = 0, along = 0;
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    squares += raw[i] * raw[i];
    along += k[i] * dk[i];
  }
  const T length = sqrt(sum_over_block(squares));
  const bool tiny = !(length > T(kSmallestNorm));
  const T norm = tiny ? T(kSmallestNorm) : length;
  along = sum_over_block(along);
  if (tiny) along = T(0);
  for (int i = threadIdx.x; i < width; i += blockDim.x) w.raw[i] = (dk[i] - along * k[i]) / norm;
  if (threadIdx.x == 0) {
    const T beta = erase.beta[sequence];
    w.raw[width] = derase.beta[sequence] * beta * (T(1) - T(0.5) * beta);
  }
  __syncthreads();
  run_perceptrons_back(p, state, w, room, T(0), dmean, s, early);
}

template <class F>
void with_operator_size(int n, F&& f) {
  if (n == 2)
    f(std::integral_constant<int, 2>());
  else
    f(std::integral_constant<int, 4>());
}

}  // namespace

template <class T>
void hybrid_generators_forward(Stream stream, const Generators<const T>& parameters, const T* sums,
                               const T* entropies, const GeneratorState<T>& state, T* g, T* gamma,
                               T* penalty, T penalty_weight, int n, const GeneratorShape& s) {
  with_operator_size(n, [&](auto size) {
    hybrid_forward<size.value><<<s.sequences, kSequenceThreads, workspace_size<T>(s), stream>>>(
        parameters, sums, entropies, state, g, gamma, penalty, penalty_weight, s);
  });
  check_launch("hybrid_generators_forward");
}

template <class T>
void hybrid_generators_backward(Stream stream, const Generators<const T>& parameters,
                                const GeneratorState<const T>& state, const T* gamma, const T* dg,
                                const T* dpenalty, int64_t dpenalty_stride, T penalty_weight,
                                const GeneratorRoom<T>& room, T* dmean, T* dentropy,
                                const Generators<T>& gradients, int n, const GeneratorShape& s) {
  with_operator_size(n, [&](auto size) {
    hybrid_backward<size.value><<<s.sequences, kSequenceThreads, workspace_size<T>(s), stream>>>(
        parameters, state, gamma, dg, dpenalty, dpenalty_stride, penalty_weight, room, dmean,
        dentropy, s);
  });
  launch_parameter_gradients(stream, state, room, gradients, s);
  check_launch("hybrid_generators_backward");
}

template <class T>
void erase_generators_forward(Stream stream, const Generators<const T>& parameters, const T* sums,
                              const GeneratorState<T>& state, const EraseArrays<T>& erase,
                              const GeneratorShape& s) {
  erase_forward<<<s.sequences, kSequenceThreads, workspace_size<T>(s), stream>>>(parameters, sums,
                                                                                 state, erase, s);
  check_launch("erase_generators_forward");
}

template <class T>
void erase_generators_backward(Stream stream, const Generators<const T>& parameters,
                               const GeneratorState<const T>& state,
                               const EraseArrays<const T>& erase,
                               const EraseArrays<const T>& derase, const GeneratorRoom<T>& room,
                               T* dmean, const Generators<T>& gradients, const GeneratorShape& s) {
  erase_backward<<<s.sequences, kSequenceThreads, workspace_size<T>(s), stream>>>(
      parameters, state, erase, derase, room, dmean, s);
  launch_parameter_gradients(stream, state, room, gradients, s);
  check_launch("erase_generators_backward");
}

#define GEORES_INSTANTIATE(T)                                                                     \
  template void hybrid_generators_forward(Stream, const Generators<const T>&, const T*, const T*, \
                                          const GeneratorState<T>&, T*, T*, T*, T, int,           \
                                          const GeneratorShape&);                                 \
  template void hybrid_generators_backward(Stream, const Generators<const T>&,                    \
                                           const GeneratorState<const T>&, const T*, const T*,    \
                                           const T*, int64_t, T, const GeneratorRoom<T>&, T*, T*, \
                                           const Generators<T>&, int, const GeneratorShape&);     \
  template void erase_generators_forward(Stream, const Generators<const T>&, const T*,            \
                                         const GeneratorState<T>&, const EraseArrays<T>&,         \
                                         const GeneratorShape&);                                  \
  template void erase_generators_backward(                                                        \
      Stream, const Generators<const T>&, const GeneratorState<const T>&,                         \
      const EraseArrays<const T>&, const EraseArrays<const T>&, const GeneratorRoom<T>&, T*,      \
      const Generators<T>&, const GeneratorShape&);
GEORES_INSTANTIATE(float)
GEORES_INSTANTIATE(double)
#undef GEORES_INSTANTIATE

}  // namespace geores::kernels
