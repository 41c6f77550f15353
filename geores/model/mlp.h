// The position-wise sublayer: Linear(w, 4w) → GELU(erf) → Linear(4w, w), no biases.
#pragma once

#include <torch/torch.h>

#include "geores/model/folding.h"

namespace geores {

using torch::Tensor;

class Mlp : public torch::nn::Module {
 public:
  Mlp(int64_t width, double out_std);
  Tensor forward(const Tensor& x);

  // post · forward(pre · x), with both maps folded into the weights.
  Tensor between(const Tensor& pre, const Tensor& x, const Tensor& post);

  // The same with weights that are folded already.
  Tensor between(const FoldedWeights& weights, const Tensor& x);

  // What between() folds the maps into: up and down.
  Folding folding(const Tensor& pre, const Tensor& post) const;

 private:
  torch::nn::Linear up_, down_;
};

}  // namespace geores
