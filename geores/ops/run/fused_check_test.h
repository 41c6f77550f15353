// For tests: a fused operation against its composed definition, values and all gradients, in both
// floating-point types, on a GPU too where there is one. Tolerances are relative to the largest value
// of a tensor: 1e-12 in float64, 2e-5 in float32.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "geores/kernels/device.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/torch.h"

namespace geores {

// CUDA's GPU, or the CPU where it emulates one.
inline bool emulates_gpu() { return kernels::kEmulated; }
inline bool has_gpu() { return emulates_gpu() || torch::cuda::is_available(); }
inline torch::Device gpu() { return emulates_gpu() ? torch::kCPU : torch::kCUDA; }
inline std::vector<torch::Device> devices() {
  if (emulates_gpu()) return {gpu()};
  return torch::cuda::is_available() ? std::vector<torch::Device>{torch::kCPU, gpu()}
                                     : std::vector<torch::Device>{torch::kCPU};
}

// Large sizes take a GPU moments, and an emulated one minutes.
inline bool takes_large_sizes() { return torch::cuda::is_available(); }

using Tensors = std::vector<Tensor>;
using Operation = std::function<Tensors(const Tensors&)>;

// Outputs of f and gradients of a random cotangent's product with them.
inline Tensors values_and_gradients(const Tensors& inputs, const Operation& f, Form form) {
  const ExecutionScope scope(form);
  Tensors leaves;
  for (const auto& input : inputs) leaves.push_back(input.detach().clone().requires_grad_(true));
  auto outputs = f(leaves);
  torch::manual_seed(11);
  Tensor loss = torch::zeros({}, inputs[0].options());
  // Not randn_like: it fills memory in the order of the result's strides, which may differ between
  // the two forms. The numbers are the same for every type and device.
  for (const auto& output : outputs)
    loss =
        loss + (output * torch::randn(output.sizes(), torch::kFloat64).to(output.options())).sum();
  const auto gradients = torch::autograd::grad({loss}, leaves);
  outputs.insert(outputs.end(), gradients.begin(), gradients.end());
  return outputs;
}

inline void expect_equal_on(const torch::Device& device, const Tensors& inputs, const Operation& f,
                            const std::string& what, double single) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    Tensors typed;
    for (const auto& input : inputs) typed.push_back(input.to(device, dtype));
    const auto fused = values_and_gradients(typed, f, Form::fused);
    const auto composed = values_and_gradients(typed, f, Form::composed);
    ASSERT_EQ(fused.size(), composed.size());
    const auto tolerance = dtype == torch::kFloat64 ? 1e-12 : single;
    for (size_t i = 0; i < fused.size(); ++i) {
      ASSERT_EQ(fused[i].sizes(), composed[i].sizes()) << what << " tensor " << i;
      if (fused[i].numel() == 0) continue;
      const auto scale = std::max(1.0, composed[i].abs().max().item<double>());
      EXPECT_LT((fused[i] - composed[i]).abs().max().item<double>(), tolerance * scale)
          << what << " " << dtype << " " << device << " tensor " << i;
    }
  }
}

inline void expect_fused_equals_composed(const Tensors& inputs, const Operation& f,
                                         const std::string& what, double single = 2e-5) {
  for (const auto& device : devices()) expect_equal_on(device, inputs, f, what, single);
}

inline Tensor random(at::IntArrayRef shape) { return torch::randn(shape, torch::kFloat64); }

}  // namespace geores
