// A causal transformer that reads one position at a time: keys, values and running means are
// cached, so a step costs one token instead of the whole window. The results equal those of
// Transformer::forward.
//   CachedDecoder decoder(model);
//   for (x : vectors) y = decoder.step(x);
// If every connection has a TokenStep (residual/residual.h) and input and sublayers are the default
// ones, a step runs in persistent buffers, with the connections' linear maps folded into the
// sublayers: after the first step it allocates nothing. A learned head, rotary positions, gated or
// wider MLPs, option past, and outputs of a fixed length are not supported in buffers.
#pragma once

#include <memory>
#include <vector>

#include "geores/model/transformer/transformer.h"

namespace geores {

class CachedDecoder final : public Decoder {
 public:
  // Throws if the model is not causal.
  explicit CachedDecoder(Transformer& model, int64_t batch = 1);

  // Returns (B, input_width) or logits (B, vocabulary).
  const Tensor& step(const Tensor& x) override;

  // In one pass. A decoder in buffers that already has a position processes positions one by one.
  const Tensor& read(const Tensor& x) override;

  int64_t position() const { return position_; }
  bool in_place() const { return !layers_.empty(); }

 private:
  // A block's two connections and the sublayers' weights between them.
  struct Layer {
    std::unique_ptr<TokenStep> attention, mlp;
    Tensor qkv, out, up, down;
  };

  std::vector<Layer> token_layers(int64_t batch) const;
  void step_in_place(const Tensor& x);
  Tensor read_tensors(const Tensor& x);
  void embed(const Tensor& x);

  Transformer& model_;
  PoolMemory memory_;
  PastMemory past_;
  std::vector<AttentionCache> caches_;  // one per block
  std::vector<Layer> layers_;           // empty: run on tensors of length 1
  Transformer::End input_, output_;
  Tensor norm_, positions_;
  // Buffers (B, ...). stream_ is the embedding, and the sum of streams at the end: the same tensor
  // as state_ if a token has one stream, or streams that are slices of one vector.
  Tensor stream_, state_, qkv_, attended_, branch_, features_;
  Tensor result_;
  int64_t position_ = 0;
};

}  // namespace geores
