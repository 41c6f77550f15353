// The summary x̄ of a sequence, the input of an operator's generators.
#pragma once

#include <string>
#include <vector>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

enum class Pool {
  sequence,  // mean over all T: one operator per sequence. Uses future tokens: not causal.
  causal,    // running mean over 0..t: one operator per token.
  token      // the token itself.
};
const std::vector<std::string>& pool_names();
Pool pool_from(const std::string& name);

// Running means that persist between forward passes, so that a causal model can read a sequence in
// pieces. Every forward pass requests its means in the same order; start_pass() begins a new pass.
class PoolMemory {
 public:
  void start_pass() { next_ = 0; }

  // The i-th call of a pass continues the i-th call of earlier passes: x (B, T, k) -> the means
  // over all values of these calls so far (B, T, k).
  Tensor running_mean(const Tensor& x);

 private:
  struct Seen {
    Tensor sum;  // (B, 1, k)
    int64_t count = 0;
  };
  std::vector<Seen> seen_;
  size_t next_ = 0;
};

// (B, T, k) -> (B, 1, k) for sequence, (B, T, k) otherwise. With a memory, x continues the sequences
// of earlier passes; pool = sequence refuses a memory.
Tensor pooled(const Tensor& x, Pool pool, PoolMemory* memory = nullptr);

}  // namespace geores
