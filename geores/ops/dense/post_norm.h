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

// v / sqrt(mean v² + epsilon) over the last axis, and what is added to it for the next reader.
struct PostNorm {
  double epsilon;
  Tensor added{};  // of v's shape; undefined: nothing
  bool keeps_state =
      true;  // false: without gradients what is normalized need not be kept by itself
};

struct PostNormed {
  Tensor state;    // what is normalized; may be undefined where it need not be kept
  Tensor next;     // state + added, or the state
  Tensor product;  // `next` as a product takes it, where it is wanted
};

// v = x + branch. The branch may be undefined, and may be in bfloat16 beside a float32 state.
PostNormed post_norm(const Tensor& x, const Tensor& branch, const PostNorm& norm,
                     bool wants_product);

// The same of x alone with all axes after the second as one, (B, T, D) or (B, T, n, d), without product.
PostNormed post_norm_of_tokens(const Tensor& x, const PostNorm& norm);

// The state and the product, where nothing is added.
StateAndProduct post_norm(const Tensor& x, const Tensor& branch, double epsilon);

// A state that no norm has made, beside what a product takes of it.
StateAndProduct with_product(const Tensor& state);

}  // namespace geores
