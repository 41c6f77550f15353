#include "geores/modules/layers.h"

#include "geores/ops/run/execution.h"

namespace geores {
torch::nn::Linear make_linear(int64_t in, int64_t out, bool bias, double std) {
  auto linear = torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(bias));
  torch::NoGradGuard no_grad;
  linear->weight.normal_(0.0, std);
  if (bias) linear->bias.zero_();
  return linear;
}

LayerNorm::LayerNorm(int64_t width, bool bias) {
  weight_ = register_parameter("weight", torch::ones({width}));
  if (bias) bias_ = register_parameter("bias", torch::zeros({width}));
}

Perceptron::Perceptron(int64_t in, int64_t hidden, int64_t out)
    : hidden_(register_module("hidden", make_linear(in, hidden, true))),
      output_(register_module("output", make_linear(hidden, out, true))) {}

Tensor Perceptron::forward(const Tensor& x) {
  return linear_map(exact_gelu(linear_map(x, hidden_->weight, hidden_->bias)), output_->weight,
                    output_->bias);
}

std::vector<Tensor> Perceptron::forward_all(const std::vector<Perceptron*>& perceptrons,
                                            const Tensor& x) {
  std::vector<Tensor> outputs;
  if (!runs_cpu_kernel(x) || perceptrons.size() < 2) {
    for (auto* perceptron : perceptrons) outputs.push_back(perceptron->forward(x));
    return outputs;
  }
  const auto w = together(perceptrons);
  std::vector<int64_t> sizes;
  for (const auto* perceptron : perceptrons) sizes.push_back(perceptron->output_->bias.numel());
  return linear_map(exact_gelu(linear_map(x, w.hidden, w.hidden_bias)), w.output, w.output_bias)
      .split_with_sizes(sizes, -1);
}

std::vector<PerceptronWeights> Perceptron::weights_of(const std::vector<Perceptron*>& perceptrons) {
  std::vector<PerceptronWeights> all;
  for (const auto* perceptron : perceptrons) all.push_back(perceptron->weights());
  return all;
}

PerceptronWeights Perceptron::together(const std::vector<Perceptron*>& perceptrons) {
  std::vector<Tensor> hidden, hidden_bias, output, output_bias;
  for (const auto* perceptron : perceptrons) {
    hidden.push_back(perceptron->hidden_->weight);
    hidden_bias.push_back(perceptron->hidden_->bias);
    output.push_back(perceptron->output_->weight);
    output_bias.push_back(perceptron->output_->bias);
  }
  return {.hidden = torch::cat(hidden),
          .hidden_bias = torch::cat(hidden_bias),
          .output = torch::block_diag(output),
          .output_bias = torch::cat(output_bias)};
}

ScaledProjection::ScaledProjection(int64_t in, const Tensor& bias, const Tensor& scale,
                                   double std) {
  auto weight = torch::zeros({bias.numel(), in});
  if (std > 0) weight.normal_(0.0, std);
  weight_ = register_parameter("weight", weight);
  bias_ = register_parameter("bias", bias.clone());
  if (scale.defined()) scale_ = register_parameter("scale", scale.clone());
}

}  // namespace geores
