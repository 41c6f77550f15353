#include "geores/model/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "geores/base/error.h"
#include "geores/ops/layers.h"

namespace geores {

CausalAttention::CausalAttention(int64_t width, int64_t heads, double out_std)
    : heads_(heads),
      qkv_(register_module("qkv", make_linear(width, 3 * width, false))),
      out_(register_module("out", make_linear(width, width, false, out_std))) {
  require(heads >= 1 && width % heads == 0, "attention", "width {} is not divisible by {} heads",
          width, heads);
}

Tensor CausalAttention::forward(const Tensor& x) {
  const auto batch = x.size(0), length = x.size(1), width = x.size(2);
  const auto by_head =
      qkv_(x).view({batch, length, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4}).unbind(0);
  const auto scale = 1.0 / std::sqrt(static_cast<double>(width / heads_));
  const auto future =
      torch::ones({length, length}, x.options().dtype(torch::kBool)).triu(/*diagonal=*/1);
  const auto scores = by_head[0].matmul(by_head[1].transpose(-1, -2)) * scale;  // (B, h, T, T)
  const auto weights =
      scores.masked_fill(future, -std::numeric_limits<double>::infinity()).softmax(-1);
  return out_(weights.matmul(by_head[2]).transpose(1, 2).reshape({batch, length, width}));
}

int64_t heads_that_fit(int64_t width, int64_t wanted) {
  auto heads = std::clamp<int64_t>(wanted, 1, width);
  while (width % heads != 0) --heads;
  return heads;
}

}  // namespace geores
