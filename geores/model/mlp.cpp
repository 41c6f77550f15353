#include "geores/model/mlp.h"

#include "geores/modules/layers.h"

namespace geores {

Mlp::Mlp(int64_t width, double out_std)
    : up_(register_module("up", make_linear(width, 4 * width, false))),
      down_(register_module("down", make_linear(4 * width, width, false, out_std))) {}

Tensor Mlp::forward(const Tensor& x) { return perceptron(x, up_->weight, down_->weight); }

Tensor Mlp::between(const Tensor& pre, const Tensor& x, const Tensor& post) {
  return between(folding(pre, post).weights(), x);
}

Tensor Mlp::between(const FoldedWeights& weights, const Tensor& x) {
  return perceptron(x, weights.first, weights.last);
}

Folding Mlp::folding(const Tensor& pre, const Tensor& post) const {
  return {.first = up_->weight, .last = down_->weight, .pre = pre, .post = post};
}

}  // namespace geores
