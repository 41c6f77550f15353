// Zeros for kernels to add sums to. Clearing a few hundred values costs a GPU as much as a small
// kernel, and a step has dozens of them: while a SumRoom lives, its thread's operations take pieces
// of one buffer that is cleared at once. They take them in their forward pass, for the one backward
// pass that follows.
#pragma once

#include <torch/torch.h>

namespace geores {

using torch::Tensor;

class SumRoom {
 public:
  // For sums like x, `size` of them; on a CPU nothing.
  SumRoom(const Tensor& x, int64_t size);
  ~SumRoom();
  SumRoom(const SumRoom&) = delete;
  SumRoom& operator=(const SumRoom&) = delete;

 private:
  Tensor before_;
  int64_t before_used_;
};

// A piece like x, in a forward pass; undefined where there is no room, or x is undefined.
Tensor take_sum_room(const Tensor& x);

// What was taken, or zeros like x; undefined for an undefined x.
Tensor sums_like(const Tensor& x, const Tensor& taken);

}  // namespace geores
