#include "geores/modules/layers.h"

#include "geores/ops/routed/wide.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/precision.h"

namespace geores {
namespace {

// Rows up to this long are normalized for one product; longer ones are projected as they are, and the
// projections are scaled.
constexpr int64_t kNormalizedRow = 256;

}  // namespace

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

Tensor ScaledProjection::forward(const Tensor& x) const {
  auto product = linear_map(x, weight_);
  if (bias_.dim() > 1) product = product.unflatten(-1, bias_.sizes());
  return (scale_.defined() ? scale_ * product : product) + bias_;
}

namespace {

// Rows that are projected without a normalized copy.
bool projects_wide_rows(const Tensor& x, const NormSpec& norm) {
  if (norm.layer || norm.weight.defined()) return false;
  return runs_half_state_kernel(x) || (runs_cuda_kernel(x) && x.size(-1) > kNormalizedRow);
}

std::vector<ProjectionWeights> weights_of(const std::vector<ScaledProjection*>& projections) {
  std::vector<ProjectionWeights> weights;
  for (const auto* p : projections) weights.push_back(p->weights());
  return weights;
}

}  // namespace

ScaledProjection::Sigmoids ScaledProjection::forward_sigmoids(
    const std::vector<ScaledProjection*>& projections, const Tensor& x, const NormSpec& norm,
    int64_t n, double offset) {
  if (projects_wide_rows(x, norm))
    if (const auto wide = wide_sigmoid_routes(x, norm.epsilon, weights_of(projections), n, offset))
      return {wide->routes, wide->skip};
  const auto [joined, skip] = forward_joined(projections, x, norm);
  return {sigmoid_routes(joined, n, offset), skip};
}

ScaledProjection::Joined ScaledProjection::forward_joined(
    const std::vector<ScaledProjection*>& projections, const Tensor& x, const NormSpec& norm) {
  if (projects_wide_rows(x, norm))
    if (const auto wide = wide_projected(x, norm.epsilon, weights_of(projections)))
      return {wide->projected, wide->skip};
  if (x.scalar_type() == torch::kBFloat16)  // a state without kernels
    return {forward_joined(projections, in_full_type(x), norm).joined, x};
  if (runs_cuda_kernel(x)) {
    const auto weights = weights_of(projections);
    const auto [h, skip] = norm.layer ? layer_norm_and_skip(x, norm.weight, norm.bias)
                                      : rms_norm_and_skip(x, norm.weight, norm.epsilon);
    return {projected_together(h, weights), skip};
  }
  if (!runs_cpu_kernel(x)) {
    std::vector<Tensor> joined;
    const auto normal = normalized(x, norm);
    for (const auto* p : projections) joined.push_back(p->forward(normal).flatten(-p->bias_.dim()));
    return {torch::cat(joined, -1), x};
  }
  const auto [weight, bias] = side_by_side(weights_of(projections));
  const auto [projected, skip] = normalized_linear(x, norm, weight, bias);
  return {projected, skip};
}

ScaledProjection::All ScaledProjection::forward_all(
    const std::vector<ScaledProjection*>& projections, const Tensor& x, const NormSpec& norm) {
  std::vector<int64_t> sizes;
  for (const auto* projection : projections) sizes.push_back(projection->bias_.numel());
  const auto [joined, skip] = forward_joined(projections, x, norm);
  All all{.outputs = {}, .skip = skip};
  const auto parts = joined.split_with_sizes(sizes, -1);
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& shape = projections[i]->bias_.sizes();
    all.outputs.push_back(shape.size() > 1 ? parts[i].unflatten(-1, shape) : parts[i]);
  }
  return all;
}

}  // namespace geores
