// RMSNorm after a residual sum, as in post-norm layers.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// A normalized state, and its copy as a product's factor (in bfloat16 on a GPU with products in
// bfloat16). Both receive gradients.
struct StateAndProduct {
  Tensor state, product;
};

// v / sqrt(mean v² + epsilon) over the last axis, and the tensor that is added to it for the next
// reader.
struct PostNorm {
  double epsilon;
  Tensor added{};  // of v's shape; undefined: nothing
  bool keeps_state =
      true;  // false: without gradients the normalized state need not be stored separately
};

struct PostNormed {
  Tensor state;    // the normalized state; may be undefined where it need not be stored
  Tensor next;     // state + added, or the state
  Tensor product;  // `next` as a product's factor, if requested
};

// v = x + branch. The branch may be undefined, and may be bfloat16 with a float32 state.
PostNormed post_norm(const Tensor& x, const Tensor& branch, const PostNorm& norm,
                     bool wants_product);

// The norm of x alone, with all axes after the second as one, (B, T, D) or (B, T, n, d), without
// product.
PostNormed post_norm_of_tokens(const Tensor& x, const PostNorm& norm);

// The same with all streams of a token as one: (B, T, n, d) -> (B, T, n·d). No product.
PostNormed joined(const PostNormed& streams);

// The state and the product's factor, without an added tensor.
StateAndProduct post_norm(const Tensor& x, const Tensor& branch, double epsilon);

// A state that was not normalized, with its copy as a product's factor.
StateAndProduct with_product(const Tensor& state);

}  // namespace geores
