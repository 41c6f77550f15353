// What an operator may look at: the summary x̄ of a sequence from which its generators are made.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

namespace geores {

using torch::Tensor;

enum class Pool {
  sequence,  // mean over all T: one operator per sequence. Sees the future: not causal.
  causal,    // running mean over 0..t: one operator per token.
  token      // the token itself.
};
const std::vector<std::string>& pool_names();
Pool pool_from(const std::string& name);

// (B, T, k) -> (B, 1, k) for sequence, (B, T, k) otherwise.
Tensor pooled(const Tensor& x, Pool pool);

}  // namespace geores
