// Multi-head self-attention, (B, T, w) -> (B, T, w):
//   softmax(q kᵀ/√(w/h) + mask) v per head, one projection for q, k, v together; no biases.
// causal: a position attends to itself and earlier ones, otherwise to all. rotary: q and k are
// rotated by their position (rotary.h). Causal attention without rotary positions is fused; with
// them the rotation is composed, and without a mask everything is.
#pragma once

#include "geores/model/folding.h"
#include "geores/ops/torch.h"
#include "geores/ops/training/dropout.h"

namespace geores {

using torch::Tensor;

// Keys and values of the positions seen so far, for reading a sequence in pieces.
struct AttentionCache {
  Tensor keys, values;  // (B, h, capacity, w/h), the first `length` positions in use
  int64_t length = 0;
};

struct AttentionConfig {
  int64_t width = 0;
  int64_t heads = 1;
  double out_std = 0;  // the output projection's scale, 0.02/√(2·layers) in a stack
  bool causal = true;
  bool rotary = false;
};

class Attention : public torch::nn::Module {
 public:
  explicit Attention(const AttentionConfig& config);

  // With a cache, x continues the cached positions and is appended to them; causal attention only.
  Tensor forward(const Tensor& x, AttentionCache* cache = nullptr);

  // With dropout on the attention weights (dropped_attention.h); the weights of all pairs of
  // positions are stored.
  Tensor forward(const Tensor& x, const Dropout& dropout, int64_t site);

  // post · forward(pre · x), with both maps folded into the projections.
  Tensor between(const Tensor& pre, const Tensor& x, const Tensor& post,
                 AttentionCache* cache = nullptr);

  // The same with folded weights.
  Tensor between(const FoldedWeights& weights, const Tensor& x, AttentionCache* cache = nullptr);

  // The weights into which between() folds the maps: [q | k | v] and output.
  Folding folding(const Tensor& pre, const Tensor& post) const;

  AttentionCache make_cache(int64_t batch, int64_t capacity) const;

  int64_t heads() const { return config_.heads; }

 private:
  // The part between the projections: (B, T, 3w) -> (B, T, w).
  Tensor attended(const Tensor& qkv, AttentionCache* cache) const;
  Tensor attended_from_cache(const Tensor& qkv, AttentionCache& cache) const;

  AttentionConfig config_;
  torch::nn::Linear qkv_, out_;
};

// The largest number of heads, at most `wanted`, that divides `width`: for sublayers narrower than
// the model.
int64_t heads_that_fit(int64_t width, int64_t wanted);

}  // namespace geores
