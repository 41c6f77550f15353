#include "geores/model/sublayers/attention.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/modules/layers.h"
#include "geores/ops/attention/attention.h"
#include "geores/ops/attention/dropped_attention.h"
#include "geores/ops/attention/rotary.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/run/precision.h"

namespace geores {
namespace {

// (B, T, 3w) -> (3, B, h, T, w/h)
Tensor heads_first(const Tensor& qkv, int64_t heads) {
  return qkv.unflatten(-1, std::vector<int64_t>{3, heads, -1}).permute({2, 0, 3, 1, 4});
}

// (B, T, 3w) -> q, k, v (B, h, T, w/h)
std::vector<Tensor> by_head(const Tensor& qkv, int64_t heads) {
  return heads_first(qkv, heads).unbind(0);
}

RotaryTables tables_for(const Tensor& qkv, int64_t heads) {
  const auto like = torch::empty({0}, qkv.options().dtype(full_type(qkv.scalar_type())));
  return rotary_tables(qkv.size(1), qkv.size(2) / (3 * heads), kRotaryBase, like);
}

}  // namespace

Attention::Attention(const AttentionConfig& config)
    : config_(config),
      qkv_(register_module("qkv", make_linear(config.width, 3 * config.width, false))),
      out_(register_module("out", make_linear(config.width, config.width, false, config.out_std))) {
  require(config.heads >= 1 && config.width % config.heads == 0, "attention",
          "width {} is not divisible by {} heads", config.width, config.heads);
  require(!config.rotary || config.width / config.heads % 2 == 0, "attention",
          "rotary positions need heads of an even width, got {}", config.width / config.heads);
}

AttentionCache Attention::make_cache(int64_t batch, int64_t capacity) const {
  const auto empty = torch::zeros({batch, config_.heads, capacity, config_.width / config_.heads},
                                  out_->weight.options().requires_grad(false));
  return {.keys = empty, .values = empty.clone()};
}

Tensor Attention::attended_from_cache(const Tensor& qkv, AttentionCache& cache) const {
  require(config_.causal, "attention",
          "a position that sees all others cannot be read before them");
  auto heads = by_head(qkv, config_.heads);
  const auto past = cache.length;
  cache.length += qkv.size(1);
  require(cache.length <= cache.keys.size(2), "attention", "position {} is beyond the cache of {}",
          cache.length, cache.keys.size(2));
  if (config_.rotary)
    for (const auto i : {0, 1}) heads[i] = rotate_by_position(heads[i], past);
  cache.keys.slice(2, past, cache.length).copy_(heads[1]);
  cache.values.slice(2, past, cache.length).copy_(heads[2]);
  return attend(heads[0], cache.keys.slice(2, 0, cache.length),
                cache.values.slice(2, 0, cache.length));
}

Tensor Attention::attended(const Tensor& qkv, AttentionCache* cache) const {
  if (cache != nullptr) return attended_from_cache(qkv, *cache);
  if (!config_.causal)
    return full_attention(qkv, config_.heads,
                          config_.rotary ? tables_for(qkv, config_.heads) : RotaryTables{});
  if (!config_.rotary) return causal_attention(qkv, config_.heads);
  auto heads = by_head(qkv, config_.heads);
  for (const auto i : {0, 1}) heads[i] = rotate_by_position(heads[i], 0);
  const auto turned = torch::stack(heads, 0).permute({1, 3, 0, 2, 4}).flatten(2);
  return causal_attention(turned, config_.heads);
}

Tensor Attention::forward(const Tensor& x, AttentionCache* cache) {
  return linear_map(attended(linear_map(x, qkv_->weight), cache), out_->weight);
}

Tensor Attention::forward(const Tensor& x, const Dropout& dropout, int64_t site) {
  auto all = heads_first(linear_map(x, qkv_->weight), config_.heads);
  // Batched products need contiguous factors: one copy here saves one in each product.
  if (on_gpu(all)) all = all.contiguous();
  auto heads = all.unbind(0);
  if (config_.rotary)
    for (const auto i : {0, 1}) heads[i] = rotate_by_position(heads[i], 0);
  return linear_map(
      dropped_attention({heads[0], heads[1], heads[2]}, config_.causal, dropout, site),
      out_->weight);
}

Folding Attention::folding(const Tensor& pre, const Tensor& post) const {
  return {.first = qkv_->weight, .last = out_->weight, .pre = pre, .post = post};
}

Tensor Attention::between(const Tensor& pre, const Tensor& x, const Tensor& post,
                          AttentionCache* cache) {
  return between(folding(pre, post).weights(), x, cache);
}

Tensor Attention::between(const FoldedWeights& weights, const Tensor& x, AttentionCache* cache) {
  return linear_map(attended(linear_map(x, weights.first), cache), weights.last);
}

int64_t heads_that_fit(int64_t width, int64_t wanted) {
  auto heads = std::clamp<int64_t>(wanted, 1, width);
  while (width % heads != 0) --heads;
  return heads;
}

}  // namespace geores
