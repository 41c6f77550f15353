// The state between two residual connections. The branch of the last sublayer may still have to be
// added: on a GPU the next reader of the sum adds it in the pass that it makes anyway, and its
// backward pass writes the sum's gradient in both types. That saves two passes over the state for
// each sublayer.
#pragma once

#include <utility>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

struct State {
  Tensor x;
  Tensor branch;  // as x, bfloat16 where products are; undefined: nothing is left to add

  State(Tensor state, Tensor left = {}) : x(std::move(state)), branch(std::move(left)) {}

  // x + branch, added here.
  Tensor total() const;
};

// x + branch as a state. Where the next reader is a kernel, it adds the branch.
State with_branch(const Tensor& x, const Tensor& branch);

// The same state with a branch that kernels take beside x, or with none.
State for_kernels(const State& state);

}  // namespace geores
