// Adds a share of earlier positions to the first state, in any connection:
//   y  = e + b ⊙ (e₋ − e) + p
//   x₀ = y + a ⊙ (ȳ − y)
// e: the embedding of a position; e₋: that of the position before, e itself at the first (`previous`;
// RWKV, arXiv:2305.13048, calls it token shift); p: learned positions, where there are any; ȳ: the
// mean of y up to this position (`mean`). a and b have one number for each value. They are `gain`
// times a parameter that starts at 0, so a model starts as one without them.
//
// Only the first state has this share: a sublayer reads a normalised state, and on the stability
// task ȳ − y is 1 % of y. On the first state a = 1 is exactly the running mean, of any length. A
// share in every sublayer (F(h) + s ⊙ (h̄ − h), h normalised) left more of the noise after the same
// number of steps (docs/notebook/own.md).
// The gain exists because AdamW's steps are as long as the learning rate, which is chosen for
// weights of 0.02; a and b must be able to reach 1.
#pragma once

#include <string>
#include <vector>

#include "geores/ops/streams/pool.h"
#include "geores/ops/torch.h"

namespace geores {

struct PastOptions {
  std::string what = "none";  // or "mean", "previous", "both"
  double gain = 30;
};
const std::vector<std::string>& past_names();

// The state that later pieces of a sequence need from earlier ones.
struct PastMemory {
  PoolMemory means;
  Tensor last;  // (B, 1, w), the embedding of the last position; undefined before the first piece
};

class Past : public torch::nn::Module {
 public:
  Past(const PastOptions& options, int64_t width);

  bool has_previous() const { return previous_.defined(); }

  // e (B, T, w) -> e + b ⊙ (e₋ − e). With a memory, e continues the sequences of earlier calls.
  Tensor with_previous(const Tensor& e, PastMemory* memory = nullptr) const;

  // y (B, T, w) -> y + a ⊙ (ȳ − y), likewise.
  Tensor with_mean(const Tensor& y, PastMemory* memory = nullptr) const;

 private:
  double gain_;
  Tensor mean_, previous_;  // (w); undefined: not used
};

}  // namespace geores
