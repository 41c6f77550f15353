// Shared by the operations of generators.h: parameters in the form of the kernels, and the
// requirements of all kernels of generators.
#pragma once

#include <vector>

#include "geores/kernels/pooled/generators.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/pooled/generators.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"

namespace geores::fused {

inline constexpr size_t kTensorsPerNet = 4;

inline bool has_gate(at::TensorList parameters) { return parameters.size() % kTensorsPerNet == 2; }

// The parameters for the kernels: four tensors for each net, then the gate's two if it has one.
template <class T>
kernels::Generators<T> generators_in(at::TensorList parameters) {
  using Value = std::remove_const_t<T>;
  kernels::Generators<T> g{};
  const auto nets = parameters.size() / kTensorsPerNet;
  for (size_t i = 0; i < nets; ++i) {
    const auto at = [&](size_t k) { return values<Value>(parameters[kTensorsPerNet * i + k]); };
    g.nets[i] = {at(0), at(1), at(2), at(3)};
  }
  if (has_gate(parameters)) {
    g.gate = values<Value>(parameters[parameters.size() - 2]);
    g.gate_bias = values<Value>(parameters[parameters.size() - 1]);
  }
  return g;
}

inline kernels::GeneratorShape generator_shape(const Tensor& x, at::TensorList parameters) {
  kernels::GeneratorShape shape{.sequences = static_cast<int>(x.size(0)),
                                .length = static_cast<int>(x.size(1)),
                                .in = static_cast<int>(x.size(2)),
                                .hidden = static_cast<int>(parameters[0].size(0)),
                                .count = static_cast<int>(parameters.size() / kTensorsPerNet),
                                .outputs = {}};
  for (int i = 0; i < shape.count; ++i)
    shape.outputs[i] =
        static_cast<int>(parameters[kTensorsPerNet * static_cast<size_t>(i) + 3].numel());
  return shape;
}

// The gradient of an output of this shape; zeros where autograd has none.
inline Tensor gradient_or_zeros(const Tensor& gradient, at::IntArrayRef shape, const Tensor& like) {
  return gradient.defined() ? gradient.contiguous() : torch::zeros(shape, like.options());
}

inline std::vector<Tensor> parameters_of(const std::vector<PerceptronWeights>& perceptrons) {
  std::vector<Tensor> all;
  for (const auto& [hidden, hidden_bias, output, output_bias] : perceptrons)
    all.insert(all.end(), {hidden, hidden_bias, output, output_bias});
  return all;
}

// The KernelChoice for generators of x, split into this number of streams, for tokens with at most
// this number of values: sequence_generators or token_generators, depending on the pool.
bool generators_run_fused(const Tensor& x, Pool pool, int64_t streams, int64_t most_values,
                          const std::vector<PerceptronWeights>& perceptrons);

// fused_hybrid() for the pools causal and token, after the kernel was chosen.
Hybrid token_hybrid(const State& state, Pool pool, int64_t streams,
                    const std::vector<PerceptronWeights>& u_v_beta_k, const HybridGate& gate);

}  // namespace geores::fused
