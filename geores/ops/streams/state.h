// The state between two residual connections. What the last sublayer gave may still have to be
// added: on a GPU the operation that reads the sum next adds it in passing, and goes back with the
// sum's gradient in both types, which is two passes over the state less for each sublayer.
#pragma once

#include <torch/torch.h>

#include <utility>

namespace geores {

using torch::Tensor;

struct State {
  Tensor x;
  Tensor branch;  // as x, bfloat16 where products are; undefined: nothing is left to add

  State(Tensor state, Tensor left = {}) : x(std::move(state)), branch(std::move(left)) {}

  // x + branch, added here.
  Tensor total() const;
};

// x + branch as a state: not added yet where kernels will do that.
State with_branch(const Tensor& x, const Tensor& branch);

// The same state with a branch that kernels can take beside x, or none.
State for_kernels(const State& state);

}  // namespace geores
