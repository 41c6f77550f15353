#include "geores/model/mlp.h"

#include "geores/ops/layers.h"

namespace geores {

Mlp::Mlp(int64_t width, double out_std)
    : up_(register_module("up", make_linear(width, 4 * width, false))),
      down_(register_module("down", make_linear(4 * width, width, false, out_std))) {}

Tensor Mlp::forward(const Tensor& x) { return down_(torch::gelu(up_(x))); }

}  // namespace geores
