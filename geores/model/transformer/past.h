// What the first state has of earlier positions, whatever the connections after it:
//   x₀ = e + a ⊙ (ē − e) + b ⊙ (e₋ − e)
// e: the embedding of a position, learned positions included; ē: the mean of those up to it (`mean`);
// e₋: that of the position before, e itself at the first (`previous`; RWKV, arXiv:2305.13048, calls it
// token shift).
// a and b have one number for each value. They are `gain` times a parameter that starts at 0, so a
// model starts as one without them.
//
// Why here: a sublayer reads a normalised state, and on the stability task the difference ē − e is 1 %
// of e. In the place of e, a = 1 is the running mean exactly, for any length of e. A share in every
// sublayer (F(h) + s ⊙ (h̄ − h), h normalised) leaves more of the noise in as many steps, see
// docs/own.md.
// Why a gain: AdamW's steps are as long as the learning rate, which is made for weights of 0.02; a and
// b must be able to reach 1.
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

// What later pieces of a sequence need of earlier ones.
struct PastMemory {
  PoolMemory means;
  Tensor last;  // (B, 1, w), the embedding of the last position; undefined before the first piece
};

class Past : public torch::nn::Module {
 public:
  Past(const PastOptions& options, int64_t width);

  // e (B, T, w) -> e + a ⊙ (ē − e) + b ⊙ (e₋ − e). With a memory, e continues the sequences of earlier
  // calls.
  Tensor forward(const Tensor& e, PastMemory* memory = nullptr) const;

 private:
  double gain_;
  Tensor mean_, previous_;  // (w); undefined: without
};

}  // namespace geores
