// RMSNorm after a residual sum, as post-norm layers have it.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// A normalized state, and the same as a product takes it (in bfloat16 on a GPU where products want
// that). Gradients of both count.
struct StateAndProduct {
  Tensor state, product;
};

// v / sqrt(mean v² + eps) over the last axis, v = x + branch. The branch may be undefined, and may be
// in bfloat16 beside a float32 state.
StateAndProduct post_norm(const Tensor& x, const Tensor& branch, double eps);

// The norm of x alone, without what a product takes of it.
Tensor post_norm_state(const Tensor& x, double eps);

// A state that no norm has made, beside what a product takes of it.
StateAndProduct with_product(const Tensor& state);

}  // namespace geores
