// The modules shared by all models, with the initialisation that all the papers
// share: weights N(0, 0.02), biases 0.
#pragma once

#include <vector>

#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/dense/projections.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

inline constexpr double kInitialStd = 0.02;

torch::nn::Linear make_linear(int64_t in, int64_t out, bool bias, double std = kInitialStd);

// (x − mean) / sqrt(var + 1e-5) · weight (+ bias) over the last axis.
class LayerNorm : public torch::nn::Module {
 public:
  explicit LayerNorm(int64_t width, bool bias = false);
  Tensor forward(const Tensor& x) const { return layer_norm(x, weight_, bias_); }
  NormAndSkip forward_and_skip(const State& state) const {
    return layer_norm_and_skip(state, weight_, bias_);
  }
  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }  // undefined without one

 private:
  Tensor weight_, bias_;
};

// Linear(in, hidden) → GELU(erf) → Linear(hidden, out), with biases: how an operator's generators
// are read off a summary of the sequence.
class Perceptron : public torch::nn::Module {
 public:
  Perceptron(int64_t in, int64_t hidden, int64_t out);
  Tensor forward(const Tensor& x);

  // The outputs of several perceptrons for the same x. Fused, their hidden layers are one
  // product and their outputs another; the parameters stay apart.
  static std::vector<Tensor> forward_all(const std::vector<Perceptron*>& perceptrons,
                                         const Tensor& x);

  PerceptronWeights weights() const {
    return {hidden_->weight, hidden_->bias, output_->weight, output_->bias};
  }
  static std::vector<PerceptronWeights> weights_of(const std::vector<Perceptron*>& perceptrons);

  // Their weights as those of one perceptron: hidden layers side by side, outputs block-diagonal.
  static PerceptronWeights together(const std::vector<Perceptron*>& perceptrons);

 private:
  torch::nn::Linear hidden_, output_;
};

// The dynamic part of a hyper-connection: scale ⊙ (W x) + bias, the product taking bias's shape.
//   x (..., in)  ->  (..., *bias.shape); weight (bias.numel(), in) ~ N(0, std), all zero for std =
//   0.
// An undefined scale means 1. With W = 0 the scale has no gradient until W has moved.
class ScaledProjection : public torch::nn::Module {
 public:
  ScaledProjection(int64_t in, const Tensor& bias, const Tensor& scale, double std = 0.0);

  Tensor& bias() { return bias_; }
  const Tensor& bias() const { return bias_; }
  ProjectionWeights weights() const { return {weight_, bias_, scale_}; }

 private:
  Tensor weight_, bias_, scale_;
};

}  // namespace geores
