// Products of weights with weights: a connection's linear maps, folded into those of the sublayer
// between them.
#pragma once

#include <utility>
#include <vector>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

using WeightFactors = std::pair<Tensor, Tensor>;  // a, b

// a b of each pair of parameter matrices. On a GPU in bfloat16 one such product is too small for a
// kernel of its own: all are one launch, and so are their gradients in a training step whose
// factors have gradient slots (step_parameters.h). Equal pairs are multiplied once.
std::vector<Tensor> weight_products(const std::vector<WeightFactors>& factors);

}  // namespace geores
