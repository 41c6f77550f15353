// Zeros for kernels to add sums to. Clearing a few hundred values costs a GPU as much as a small
// kernel, and a step has dozens of them: while a SumRoom lives, its thread's operations add to what
// is cleared at once, and for a parameter that is the very place where its gradient belongs. They
// ask in their forward pass, for the backward pass that follows.
#pragma once

#include <torch/torch.h>

#include "geores/ops/gradients/weight_gradients.h"

namespace geores {

using torch::Tensor;

class SumRoom {
 public:
  // `values` are all parameters in a row, and `gradients`, zeros, the places of theirs; besides
  // there is room for `more` other sums. On a CPU nothing.
  SumRoom(const Tensor& values, const Tensor& gradients, int64_t more);
  ~SumRoom();
  SumRoom(const SumRoom&) = delete;
  SumRoom& operator=(const SumRoom&) = delete;

  // After the backward pass: what it left to be added has been.
  void finish();
};

// Zeros like x, in a forward pass. Undefined where there is no room, or x is undefined.
Tensor take_sum_room(const Tensor& x);

// Where a parameter's gradient is to be added, in a forward pass; undefined where there is no room
// or x is no parameter. Autograd then gets no gradient for it.
Tensor gradient_place(const Tensor& x);

// The same for what a forward pass has made of parameters, for products to take: from here on
// gradient_place(x) is this place, zeros in the parameters' type whatever x is in. Whoever asks for
// it takes the gradient on from there to the parameters. Undefined where there is no room.
Tensor make_gradient_place(const Tensor& x);

// For a backward pass that has asked for the place: what to add to, zeros where there was none, and
// what autograd gets, nothing where there was one.
struct ParameterSum {
  Tensor sum, gradient;
};
ParameterSum parameter_sum(const Tensor& parameter, const Tensor& place);

// Who takes products for the gradients of weights, in a forward pass; null where there is no room.
c10::intrusive_ptr<WeightGradients> weight_gradients();

}  // namespace geores
