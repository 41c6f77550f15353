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

AttentionCache CausalAttention::make_cache(int64_t batch, int64_t capacity) const {
  const auto width = out_->weight.size(0);
  const auto empty = torch::zeros({batch, heads_, capacity, width / heads_},
                                  out_->weight.options().requires_grad(false));
  return {.keys = empty, .values = empty.clone()};
}

Tensor CausalAttention::forward(const Tensor& x, AttentionCache* cache) {
  const auto batch = x.size(0), length = x.size(1), width = x.size(2);
  const auto by_head =
      qkv_(x).view({batch, length, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4}).unbind(0);
  const auto& queries = by_head[0];
  auto keys = by_head[1], values = by_head[2];
  int64_t past = 0;
  if (cache != nullptr) {
    past = cache->length;
    cache->length += length;
    require(cache->length <= cache->keys.size(2), "attention",
            "position {} is beyond the cache of {}", cache->length, cache->keys.size(2));
    cache->keys.slice(2, past, cache->length).copy_(keys);
    cache->values.slice(2, past, cache->length).copy_(values);
    keys = cache->keys.slice(2, 0, cache->length);
    values = cache->values.slice(2, 0, cache->length);
  }
  const auto scale = 1.0 / std::sqrt(static_cast<double>(width / heads_));
  const auto future =
      torch::ones({length, past + length}, x.options().dtype(torch::kBool)).triu(past + 1);
  const auto scores = queries.matmul(keys.transpose(-1, -2)) * scale;  // (B, h, T, past + T)
  const auto weights =
      scores.masked_fill(future, -std::numeric_limits<double>::infinity()).softmax(-1);
  return out_(weights.matmul(values).transpose(1, 2).reshape({batch, length, width}));
}

int64_t heads_that_fit(int64_t width, int64_t wanted) {
  auto heads = std::clamp<int64_t>(wanted, 1, width);
  while (width % heads != 0) --heads;
  return heads;
}

}  // namespace geores
