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

// Running means that outlive a forward pass, so that a causal model can read a sequence in pieces.
// Every forward pass asks for its means in the same order; start_pass() begins a new one.
class StreamMemory {
 public:
  void start_pass() { next_ = 0; }

  // Means over all that this place has seen so far: x (B, T, k) -> (B, T, k).
  Tensor running_mean(const Tensor& x);

 private:
  struct Place {
    Tensor sum;  // (B, 1, k)
    int64_t count = 0;
  };
  std::vector<Place> places_;
  size_t next_ = 0;
};

// (B, T, k) -> (B, 1, k) for sequence, (B, T, k) otherwise. With a memory, x continues what earlier
// passes have seen; pool = sequence cannot.
Tensor pooled(const Tensor& x, Pool pool, StreamMemory* memory = nullptr);

}  // namespace geores
