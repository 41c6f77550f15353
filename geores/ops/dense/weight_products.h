// Products of weights with weights, for products with activations to take: a connection's linear
// maps, folded into those of the sublayer between them.
#pragma once

#include <utility>
#include <vector>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

using WeightFactors = std::pair<Tensor, Tensor>;  // a, b

// a b of each two matrices of parameters. On a GPU in bfloat16 one such product is too small to be a
// kernel: there all are one, and so are their gradients in a training step (step_parameters.h) that
// has places for those of the factors. Equal factors are multiplied once.
std::vector<Tensor> weight_products(const std::vector<WeightFactors>& factors);

}  // namespace geores
