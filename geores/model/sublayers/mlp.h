// The position-wise sublayers, (B, T, w) -> (B, T, w), no biases:
//   gelu     W_down GELU(W_up x), GELU by erf, hidden width 4w
//   swiglu   W_down (silu(g) ⊙ u), [g | u] = W_gate_up x (arXiv:2002.05202), composed
#pragma once

#include "geores/model/folding.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

class Mlp : public torch::nn::Module {
 public:
  // post · F(pre · x), with both maps folded into the weights; undefined maps are the identity.
  Tensor between(const Tensor& pre, const Tensor& x, const Tensor& post) const {
    return between(folding(pre, post).weights(), x);
  }

  // The same with folded weights.
  Tensor between(const FoldedWeights& weights, const Tensor& x) const {
    return apply(x, weights.first, weights.last);
  }
  Tensor forward(const Tensor& x) const { return between({}, x, {}); }

  // The weights into which between() folds the maps.
  virtual Folding folding(const Tensor& pre, const Tensor& post) const = 0;

 protected:
  // The sublayer with its first and last weights replaced.
  virtual Tensor apply(const Tensor& x, const Tensor& first, const Tensor& last) const = 0;
};

class GeluMlp final : public Mlp {
 public:
  GeluMlp(int64_t width, double out_std);
  Folding folding(const Tensor& pre, const Tensor& post) const override;

 private:
  Tensor apply(const Tensor& x, const Tensor& first, const Tensor& last) const override;
  torch::nn::Linear up_, down_;
};

class SwiGluMlp final : public Mlp {
 public:
  SwiGluMlp(int64_t width, int64_t hidden, double out_std);
  Folding folding(const Tensor& pre, const Tensor& post) const override;

 private:
  Tensor apply(const Tensor& x, const Tensor& first, const Tensor& last) const override;
  torch::nn::Linear gate_up_, down_;
};

}  // namespace geores
