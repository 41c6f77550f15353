// The perceptrons of one block on the mean of one sequence, forward and backward.
#pragma once

#include "geores/kernels/cuda/device.cuh"
#include "geores/kernels/cuda/gelu.cuh"
#include "geores/kernels/pooled/generators.h"
#include "geores/kernels/pooled/summary.h"

namespace geores::kernels::device {

__device__ inline int net_of(const GeneratorShape& s, int output, int& index) {
  int net = 0;
  for (index = output; index >= s.outputs[net]; ++net) index -= s.outputs[net];
  return net;
}

template <class T>
__device__ inline void begin_copy(const T* from, int size, T* to) {
#pragma unroll 4
  for (int i = threadIdx.x; i < size; i += blockDim.x)
#ifdef GEORES_EMULATED
    to[i] = from[i];
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                     static_cast<uint32_t>(__cvta_generic_to_shared(to + i))),
                 "l"(from + i), "n"(sizeof(T)));
#endif
}

// The sum over a block, in all threads; all of them must call.
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

// The shared memory of a block, for one sequence. It starts to load all weights at once, before it
// has the values that they will be multiplied with: at this size a kernel mostly waits.
// It waits for its own instructions too, so short loops are faster than unrolled ones. Weights that
// do not fit stay in global memory.
template <class T>
struct Workspace {
  const Generators<const T>& p;
  const GeneratorShape& s;
  bool staged;
  T *mean, *hidden, *raw;              // (in), (units), (all outputs)
  T *hidden_weights, *output_weights;  // (units, in), (all outputs, hidden)

  static constexpr size_t kMost = 200 * 1024;
  static size_t bytes(const GeneratorShape& s, bool staged) {
    const auto values = static_cast<size_t>(s.in + s.units() + s.all_outputs());
    const auto weights = static_cast<size_t>(s.units() * s.in + s.all_outputs() * s.hidden);
    return (values + (staged ? weights : 0)) * sizeof(T);
  }

  __device__ Workspace(unsigned char* memory, const Generators<const T>& parameters,
                       const GeneratorShape& shape, bool with_weights)
      : p(parameters),
        s(shape),
        staged(with_weights),
        mean(reinterpret_cast<T*>(memory)),
        hidden(mean + s.in),
        raw(hidden + s.units()),
        hidden_weights(raw + s.all_outputs()),
        output_weights(hidden_weights + s.units() * s.in) {
    if (!staged) return;
    T* output = output_weights;
    for (int net = 0; net < s.count; ++net) {
      begin_copy(p.nets[net].hidden, s.hidden * s.in, hidden_weights + net * s.hidden * s.in);
      begin_copy(p.nets[net].output, s.outputs[net] * s.hidden, output);
      output += s.outputs[net] * s.hidden;
    }
  }
  // Waits until the weights, and everything else written before, are visible to all threads.
  __device__ void wait() const {
#ifndef GEORES_EMULATED
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncthreads();
  }

  __device__ T hidden_weight(int unit, int i) const {
    return staged ? hidden_weights[unit * s.in + i]
                  : p.nets[unit / s.hidden].hidden[unit % s.hidden * s.in + i];
  }
  // `output` counts the outputs of all nets, `row` those of this net.
  __device__ T output_weight(int net, int output, int row, int i) const {
    return staged ? output_weights[output * s.hidden + i] : p.nets[net].output[row * s.hidden + i];
  }
};

// The number of outputs of the nets before this one.
__device__ inline int outputs_before(const GeneratorShape& s, int net) {
  int sum = 0;
  for (int i = 0; i < net; ++i) sum += s.outputs[i];
  return sum;
}

// A value of the mean of this block's sequence.
template <class T>
__device__ inline T mean_value(const T* sums, const GeneratorShape& s, int i) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kSummaryParts;
  T sum = 0;
#pragma unroll
  for (int part = 0; part < kSummaryParts; ++part) sum += sums[(first + part) * s.in + i];
  return sum / T(s.length);
}

// From the perceptrons' input, in the workspace (mean), to their raw outputs: stored for the backward
// pass and left in the workspace. Begins with a barrier.
template <class T>
__device__ inline void run_layers(const GeneratorState<T>& state, const Workspace<T>& w) {
  const auto& s = w.s;
  const int64_t sequence = blockIdx.x;
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;
  w.wait();
#pragma unroll 2
  for (int unit = warp; unit < s.units(); unit += warps) {
    const T bias = w.p.nets[unit / s.hidden].hidden_bias[unit % s.hidden];
    T sum = 0;
    for (int i = lane; i < s.in; i += 32) sum += w.hidden_weight(unit, i) * w.mean[i];
    sum = group_sum<32>(sum) + bias;
    if (lane == 0) {
      state.hidden[sequence * s.units() + unit] = sum;
      w.hidden[unit] = gelu(sum);
    }
  }
  __syncthreads();
#pragma unroll 2
  for (int output = warp; output < s.all_outputs(); output += warps) {
    int row;
    const int net = net_of(s, output, row);
    const T bias = w.p.nets[net].output_bias[row];
    T sum = 0;
    for (int i = lane; i < s.hidden; i += 32)
      sum += w.output_weight(net, output, row, i) * w.hidden[net * s.hidden + i];
    sum = group_sum<32>(sum) + bias;
    if (lane == 0) w.raw[output] = state.raw[sequence * s.all_outputs() + output] = sum;
  }
  __syncthreads();
}

// The mean and the raw outputs of this block's sequence, stored for the backward pass and left in
// the workspace.
template <class T>
__device__ inline void run_perceptrons(const T* sums, const GeneratorState<T>& state,
                                       const Workspace<T>& w) {
  for (int i = threadIdx.x; i < w.s.in; i += blockDim.x)
    w.mean[i] = state.mean[static_cast<int64_t>(blockIdx.x) * w.s.in + i] =
        mean_value(sums, w.s, i);
  run_layers(state, w);
}

// How the threads of a block share sums over the rows of a matrix: in teams with one thread for
// each column.
struct Teams {
  int columns, count, team, first;

  __device__ explicit Teams(int wanted)
      : columns(min(wanted, static_cast<int>(blockDim.x))),
        count(blockDim.x / columns),
        team(threadIdx.x / columns),
        first(threadIdx.x % columns) {}
};

// From the gradients of the raw outputs, in the workspace, to the gradients of the hidden units and
// of the perceptrons' input, in the workspace (mean); dlogit is the gate's. Begins and ends with a
// barrier.
template <class T>
__device__ inline void run_layers_back(const GeneratorState<const T>& state, const Workspace<T>& w,
                                       const GeneratorScratch<T>& scratch, const T& dlogit) {
  const auto& s = w.s;
  const int64_t sequence = blockIdx.x;
  for (int unit = threadIdx.x; unit < s.units(); unit += blockDim.x) w.hidden[unit] = T(0);
  w.wait();
  for (int i = threadIdx.x; i < s.all_outputs(); i += blockDim.x)
    scratch.raw[sequence * s.all_outputs() + i] = w.raw[i];
  for (int i = threadIdx.x; i < s.in; i += blockDim.x)
    w.mean[i] = w.p.gate ? dlogit * w.p.gate[i] : T(0);
  const Teams by_unit(s.units());
  for (int unit = by_unit.first; unit < s.units(); unit += by_unit.columns) {
    const int net = unit / s.hidden, before = outputs_before(s, net);
    T sum = 0;
    if (by_unit.team < by_unit.count)
#pragma unroll 4
      for (int row = by_unit.team; row < s.outputs[net]; row += by_unit.count)
        sum += w.raw[before + row] * w.output_weight(net, before + row, row, unit % s.hidden);
    atomicAdd(w.hidden + unit, sum);
  }
  __syncthreads();
  for (int unit = threadIdx.x; unit < s.units(); unit += blockDim.x) {
    const auto at = sequence * s.units() + unit;
    w.hidden[unit] = scratch.hidden[at] = w.hidden[unit] * gelu_slope(state.hidden[at]);
  }
  __syncthreads();
  const Teams by_input(s.in);
  for (int i = by_input.first; i < s.in; i += by_input.columns) {
    T sum = 0;
    if (by_input.team < by_input.count)
#pragma unroll 4
      for (int unit = by_input.team; unit < s.units(); unit += by_input.count)
        sum += w.hidden[unit] * w.hidden_weight(unit, i);
    atomicAdd(w.mean + i, sum);
  }
  __syncthreads();
}

// The same, and the gradient of the mean.
template <class T>
__device__ inline void run_perceptrons_back(const GeneratorState<const T>& state,
                                            const Workspace<T>& w, const GeneratorScratch<T>& scratch,
                                            const T& dlogit, T* dmean) {
  run_layers_back(state, w, scratch, dlogit);
  for (int i = threadIdx.x; i < w.s.in; i += blockDim.x)
    dmean[static_cast<int64_t>(blockIdx.x) * w.s.in + i] = w.mean[i];
}

// One block for each hidden unit, each output, and the gate. It sums over the sequences the
// gradient that reaches the unit times the unit's input. Teams of threads share the sequences.
inline constexpr int kGradientThreads = 512;

template <class T, class Right>
__device__ inline void sum_over_sequences(const T* left, int stride, int sequences, int columns,
                                          T* row, T* bias, Right&& right) {
  GEORES_SHARED_BYTES(memory);
  // The gradient that reaches the unit from each sequence.
  auto* factors = reinterpret_cast<T*>(memory);
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
    parameter_gradients(GeneratorState<const T> state, GeneratorScratch<T> scratch,
                        Generators<T> gradients, GeneratorShape s) {
  wait_for_previous();
  const int block = blockIdx.x, units = s.units(), outputs = s.all_outputs();
  const auto mean = [&](int b, int i) { return state.mean[b * s.in + i]; };
  if (block < units) {
    const auto& net = gradients.nets[block / s.hidden];
    const int row = block % s.hidden;
    sum_over_sequences(scratch.hidden + block, units, s.sequences, s.in, net.hidden + row * s.in,
                       net.hidden_bias + row, mean);
  } else if (block < units + outputs) {
    int row;
    const int index = net_of(s, block - units, row);
    const auto& net = gradients.nets[index];
    sum_over_sequences(scratch.raw + (block - units), outputs, s.sequences, s.hidden,
                       net.output + row * s.hidden, net.output_bias + row, [&](int b, int i) {
                         return gelu(state.hidden[b * units + index * s.hidden + i]);
                       });
  } else {
    sum_over_sequences(scratch.logit, 1, s.sequences, s.in, gradients.gate, gradients.gate_bias, mean);
  }
}

template <class T>
void launch_parameter_gradients(CudaStream stream, const GeneratorState<const T>& state,
                                const GeneratorScratch<T>& scratch, const Generators<T>& gradients,
                                const GeneratorShape& s) {
  const int blocks = s.units() + s.all_outputs() + (gradients.gate ? 1 : 0);
  const auto shared = static_cast<size_t>(s.sequences + std::max(s.in, s.hidden)) * sizeof(T);
  launch(stream, {blocks, kGradientThreads, shared}, parameter_gradients<T>, state, scratch, gradients,
         s);
}

inline constexpr int kSequenceThreads = 512;

// One block for each sequence.
template <class T, class Kernel, class... Arguments>
void launch_by_sequence(CudaStream stream, Kernel* kernel, const GeneratorShape& s,
                        Arguments... arguments) {
  const bool staged = Workspace<T>::bytes(s, true) <= Workspace<T>::kMost;
  const auto bytes = Workspace<T>::bytes(s, staged);
  launch(stream, {s.sequences, kSequenceThreads, bytes}, kernel, arguments..., s, staged);
}

}  // namespace geores::kernels::device
