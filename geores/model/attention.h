// Causal multi-head self-attention, (B, T, w) -> (B, T, w):
//   softmax(q kᵀ/√(w/h) + causal mask) v per head, one fused projection for q, k, v; no biases.
#pragma once

#include <torch/torch.h>

#include "geores/model/folding.h"

namespace geores {

using torch::Tensor;

// Keys and values of the positions seen so far, for reading a sequence in pieces.
struct AttentionCache {
  Tensor keys, values;  // (B, h, capacity, w/h), the first `length` positions in use
  int64_t length = 0;
};

class CausalAttention : public torch::nn::Module {
 public:
  // out_std: the output projection's scale, 0.02/√(2·layers) in a stack.
  CausalAttention(int64_t width, int64_t heads, double out_std);

  // With a cache, x continues the positions in it and is added to it.
  Tensor forward(const Tensor& x, AttentionCache* cache = nullptr);

  // post · forward(pre · x), with both maps folded into the projections.
  Tensor between(const Tensor& pre, const Tensor& x, const Tensor& post,
                 AttentionCache* cache = nullptr);

  // The same with weights that are folded already.
  Tensor between(const FoldedWeights& weights, const Tensor& x, AttentionCache* cache = nullptr);

  // What between() folds the maps into: [q | k | v] and output.
  Folding folding(const Tensor& pre, const Tensor& post) const;

  AttentionCache make_cache(int64_t batch, int64_t capacity) const;

 private:
  // The part between the projections: (B, T, 3w) -> (B, T, w).
  Tensor attended(const Tensor& qkv, AttentionCache* cache) const;

  int64_t heads_;
  torch::nn::Linear qkv_, out_;
};

// The largest number of heads, at most `wanted`, that divides `width`: stream-wide sublayers are
// narrower than the model that asks for the heads.
int64_t heads_that_fit(int64_t width, int64_t wanted);

}  // namespace geores
