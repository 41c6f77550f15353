// The state between two residual connections. The branch of the last sublayer may still be pending:
// on a GPU the next reader of the sum adds it in its own pass, and its backward pass writes the
// sum's gradient in both types. That saves two passes over the state for each sublayer.
#pragma once

#include <memory>
#include <utility>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// How a branch is written to a state of streams, where that is more than a sum (ops/routed/routed.h).
class WaitingWrite {
 public:
  virtual ~WaitingWrite() = default;
  virtual Tensor total(const Tensor& branch) const = 0;  // the state after the write
};

struct State {
  Tensor x;
  Tensor branch;  // like x, or bfloat16 if products are; undefined: nothing is pending
  std::shared_ptr<const WaitingWrite> write;  // how x takes the branch; null: by their sum
  Tensor read;  // (B, T, n): how the next connection reads the streams, where this one decides that

  State(Tensor state, Tensor left = {}, std::shared_ptr<const WaitingWrite> how = nullptr,
        Tensor next_read = {})
      : x(std::move(state)),
        branch(std::move(left)),
        write(std::move(how)),
        read(std::move(next_read)) {}

  // The state with its branch, added or written immediately, without `read`.
  Tensor total() const;
};

// x + branch as a state. If the next reader is a kernel, it adds the branch.
State with_branch(const Tensor& x, const Tensor& branch);

// The same state for kernels that add a branch by themselves.
struct Summands {
  Tensor x, branch;  // branch undefined: nothing is pending
};
Summands for_kernels(const State& state);

}  // namespace geores
