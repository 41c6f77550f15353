// The linear maps that a connection puts around a sublayer, folded into the weights that the
// sublayer begins and ends with: the same result for two matrix products less.
#pragma once

#include <vector>

#include "geores/ops/dense/weight_products.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

struct FoldedWeights {
  Tensor first, last;
};

struct Folding {
  Tensor first, last;  // weights of the sublayer
  Tensor pre, post;    // maps before and after it; undefined: none

  FoldedWeights weights() const;  // first · pre and post · last
};

// The same for many sublayers at once, which on a GPU is one kernel.
std::vector<FoldedWeights> folded_together(const std::vector<Folding>& foldings);

}  // namespace geores
