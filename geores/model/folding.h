// Folds the linear maps that a connection puts around a sublayer into the sublayer's first and last
// weights, which saves two matrix products.
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

// The same for many sublayers at once, as one kernel on a GPU.
std::vector<FoldedWeights> folded_together(const std::vector<Folding>& foldings);

}  // namespace geores
