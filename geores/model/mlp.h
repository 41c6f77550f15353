// The position-wise sublayer: Linear(w, 4w) → GELU(erf) → Linear(4w, w), no biases.
#pragma once

#include <torch/torch.h>

#include <utility>

#include "geores/residual/residual.h"

namespace geores {

using torch::Tensor;

class Mlp : public torch::nn::Module {
 public:
  Mlp(int64_t width, double out_std);
  Tensor forward(const Tensor& x);

  // skip + post · forward(pre · x), with both maps folded into the weights.
  Tensor within(const Tensor& x, const Around& around);

  // The weights of within(), with pre and post folded in where defined.
  std::pair<Tensor, Tensor> folded_weights(const Tensor& pre, const Tensor& post) const;

 private:
  torch::nn::Linear up_, down_;
};

}  // namespace geores
