// The state between two residual connections. The branch of the last sublayer may still be pending:
// on a GPU the next reader of the sum adds it in its own pass, and its backward pass writes the
// sum's gradient in both types. That saves two passes over the state for each sublayer.
#pragma once

#include <utility>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

struct State {
  Tensor x;
  Tensor branch;  // like x, or bfloat16 if products are; undefined: nothing is pending

  State(Tensor state, Tensor left = {}) : x(std::move(state)), branch(std::move(left)) {}

  // x + branch, added immediately.
  Tensor total() const;
};

// x + branch as a state. If the next reader is a kernel, it adds the branch.
State with_branch(const Tensor& x, const Tensor& branch);

// The same state with a pending branch for kernels, or with none.
State for_kernels(const State& state);

}  // namespace geores
