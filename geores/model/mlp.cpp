#include "geores/model/mlp.h"

#include "geores/ops/layers.h"

namespace geores {

Mlp::Mlp(int64_t width, double out_std)
    : up_(register_module("up", make_linear(width, 4 * width, false))),
      down_(register_module("down", make_linear(4 * width, width, false, out_std))) {}

Tensor Mlp::forward(const Tensor& x) { return perceptron(x, up_->weight, down_->weight); }

Tensor Mlp::between(const Tensor& pre, const Tensor& x, const Tensor& post) {
  return perceptron(x, up_->weight.matmul(pre), post.matmul(down_->weight));
}

}  // namespace geores
