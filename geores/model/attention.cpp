#include "geores/model/attention.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/modules/layers.h"
#include "geores/ops/attention/attention.h"

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

Tensor CausalAttention::attended(const Tensor& qkv, AttentionCache* cache) const {
  if (cache == nullptr) return causal_attention(qkv, heads_);
  const auto by_head =
      qkv.unflatten(-1, std::vector<int64_t>{3, heads_, -1}).permute({2, 0, 3, 1, 4}).unbind(0);
  const auto past = cache->length;
  cache->length += qkv.size(1);
  require(cache->length <= cache->keys.size(2), "attention",
          "position {} is beyond the cache of {}", cache->length, cache->keys.size(2));
  cache->keys.slice(2, past, cache->length).copy_(by_head[1]);
  cache->values.slice(2, past, cache->length).copy_(by_head[2]);
  return attend(by_head[0], cache->keys.slice(2, 0, cache->length),
                cache->values.slice(2, 0, cache->length));
}

Tensor CausalAttention::forward(const Tensor& x, AttentionCache* cache) {
  return linear_map(attended(linear_map(x, qkv_->weight), cache), out_->weight);
}

Folding CausalAttention::folding(const Tensor& pre, const Tensor& post) const {
  return {.first = qkv_->weight, .last = out_->weight, .pre = pre, .post = post};
}

Tensor CausalAttention::between(const Tensor& pre, const Tensor& x, const Tensor& post,
                                AttentionCache* cache) {
  return between(folding(pre, post).weights(), x, cache);
}

Tensor CausalAttention::between(const FoldedWeights& weights, const Tensor& x,
                                AttentionCache* cache) {
  return linear_map(attended(linear_map(x, weights.first), cache), weights.last);
}

int64_t heads_that_fit(int64_t width, int64_t wanted) {
  auto heads = std::clamp<int64_t>(wanted, 1, width);
  while (width % heads != 0) --heads;
  return heads;
}

}  // namespace geores
