// Dropout whose mask is a pure function of (seed, step, site, number of the element in the whole
// batch): the same after a resume, with micro-batches, and when a block is computed again in the
// backward pass. Nothing of it is stored.
#pragma once

#include "geores/kernels/training/dropout.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

struct Dropout {
  double rate = 0;  // share of the elements that become 0; the others are divided by 1 − rate
  int64_t seed = 0;
  Tensor step = {};       // (1) int64, on the device of the values
  int64_t first_row = 0;  // number of the first row in the whole batch

  bool active() const { return rate > 0 && step.defined(); }
};

// x (B, ...), `site` tells the places in a model apart. x itself where the dropout is not active.
Tensor dropped(const Tensor& x, const Dropout& dropout, int64_t site);

// What kernels take of it for values shaped as x. It points into dropout.step.
kernels::DropoutMask mask_of(const Tensor& x, const Dropout& dropout, int64_t site);

// The same mask in plain tensor operations: its definition.
Tensor composed_dropped(const Tensor& x, const Dropout& dropout, int64_t site);

}  // namespace geores
