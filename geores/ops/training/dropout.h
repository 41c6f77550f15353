// Dropout whose mask is a pure function of (seed, step, site, index of the element in the whole
// batch): it is the same after a resume, with micro-batches, and when the backward pass recomputes
// a block. The mask is never stored.
#pragma once

#include "geores/kernels/training/dropout.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

struct Dropout {
  double rate = 0;  // share of the elements that become 0; the others are divided by 1 − rate
  int64_t seed = 0;
  Tensor step = {};       // (1) int64, on the device of the values
  int64_t first_row = 0;  // index of the first row in the whole batch

  bool active() const { return rate > 0 && step.defined(); }
};

// x (B, ...); `site` distinguishes the dropouts of a model. Returns x itself if the dropout is
// inactive.
Tensor dropped(const Tensor& x, const Dropout& dropout, int64_t site);

// The kernels' argument for values of x's shape. It points into dropout.step.
kernels::DropoutMask mask_of(const Tensor& x, const Dropout& dropout, int64_t site);

// The definition: the same mask in plain tensor operations.
Tensor composed_dropped(const Tensor& x, const Dropout& dropout, int64_t site);

}  // namespace geores
