// Zeros for kernels to add sums to. Clearing a few hundred values costs a GPU as much as a small
// kernel, and a step has dozens of them: while a SumRoom lives, its thread's operations add to what
// is cleared at once, and for a parameter that is the very place where its gradient belongs. They
// ask in their forward pass, for the one backward pass that follows.
#pragma once

#include <torch/torch.h>

namespace geores {

using torch::Tensor;

class SumRoom {
 public:
  // `values` are all parameters in a row and `gradients`, zeros, the places of theirs (undefined:
  // there are none); besides there is room for `more` other sums. On a CPU nothing.
  SumRoom(const Tensor& values, const Tensor& gradients, int64_t more);
  ~SumRoom();
  SumRoom(const SumRoom&) = delete;
  SumRoom& operator=(const SumRoom&) = delete;
};

// Zeros like x, in a forward pass: those of its gradient if x is a parameter that nobody has asked
// for yet. Undefined where there is no room, or x is undefined.
Tensor take_sum_room(const Tensor& x);

// What was taken, or zeros like x; undefined for an undefined x.
Tensor sums_like(const Tensor& x, const Tensor& taken);

}  // namespace geores
