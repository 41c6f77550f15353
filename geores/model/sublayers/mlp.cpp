#include "geores/model/sublayers/mlp.h"

#include "geores/modules/layers.h"
#include "geores/ops/dense/swiglu.h"

namespace geores {

GeluMlp::GeluMlp(int64_t width, double out_std)
    : up_(register_module("up", make_linear(width, 4 * width, false))),
      down_(register_module("down", make_linear(4 * width, width, false, out_std))) {}

Tensor GeluMlp::apply(const Tensor& x, const Tensor& first, const Tensor& last) const {
  return perceptron(x, first, last);
}

Folding GeluMlp::folding(const Tensor& pre, const Tensor& post) const {
  return {.first = up_->weight, .last = down_->weight, .pre = pre, .post = post};
}

SwiGluMlp::SwiGluMlp(int64_t width, int64_t hidden, double out_std)
    : gate_up_(register_module("gate_up", make_linear(width, 2 * hidden, false))),
      down_(register_module("down", make_linear(hidden, width, false, out_std))) {}

Tensor SwiGluMlp::apply(const Tensor& x, const Tensor& first, const Tensor& last) const {
  return linear_map(swiglu(linear_map(x, first)), last);
}

Folding SwiGluMlp::folding(const Tensor& pre, const Tensor& post) const {
  return {.first = gate_up_->weight, .last = down_->weight, .pre = pre, .post = post};
}

}  // namespace geores
