#include "geores/ops/layers.h"

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
  return linear_map(exact_gelu(linear_map(x, hidden_->weight, hidden_->bias)), output_->weight, output_->bias);
}

ScaledProjection::ScaledProjection(int64_t in, const Tensor& bias, const Tensor& scale,
                                   double std) {
  auto weight = torch::zeros({bias.numel(), in});
  if (std > 0) weight.normal_(0.0, std);
  weight_ = register_parameter("weight", weight);
  bias_ = register_parameter("bias", bias.clone());
  if (scale.defined()) scale_ = register_parameter("scale", scale.clone());
}

Tensor ScaledProjection::forward(const Tensor& x) const {
  auto product = linear_map(x, weight_);
  if (bias_.dim() > 1) product = product.unflatten(-1, bias_.sizes());
  return (scale_.defined() ? scale_ * product : product) + bias_;
}

}  // namespace geores
