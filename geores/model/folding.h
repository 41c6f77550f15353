// The linear maps that a connection puts around a sublayer, folded into the weights that the
// sublayer begins and ends with: the same result for two matrix products less.
#pragma once

#include <torch/torch.h>

#include <utility>

#include "geores/ops/dense/weight_products.h"

namespace geores {

using torch::Tensor;

struct Folding {
  Tensor first, last;  // weights of the sublayer
  Tensor pre, post;    // before and after it; undefined: none

  // first · pre and post · last.
  std::pair<Tensor, Tensor> weights() const {
    return {pre.defined() ? weight_product(first, pre) : first,
            post.defined() ? weight_product(post, last) : last};
  }

  // What weights() multiplies, to do several sublayers' at once.
  void add_factors(WeightProducts::Factors& to) const {
    if (pre.defined()) to.emplace_back(first, pre);
    if (post.defined()) to.emplace_back(post, last);
  }
};

}  // namespace geores
