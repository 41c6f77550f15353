// A causal model that reads one position at a time: keys, values and running means are kept, so a
// step costs one token instead of the whole window. Gives what Transformer::forward gives.
//   Streamer stream(model);
//   for (x : vectors) y = stream.step(x);
#pragma once

#include <memory>
#include <vector>

#include "geores/model/transformer.h"

namespace geores {

class Streamer {
 public:
  // Fails if the model's connection sees the future.
  explicit Streamer(Transformer& model, int64_t batch = 1);

  // x: (B, input_width), or (B) ids; returns (B, input_width) or logits (B, vocabulary).
  Tensor step(const Tensor& x);

  int64_t position() const { return position_; }

 private:
  Transformer& model_;
  StreamMemory memory_;
  std::vector<AttentionCache> caches_;  // one per block
  int64_t position_ = 0;
};

}  // namespace geores
