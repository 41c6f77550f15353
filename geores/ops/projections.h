// Several projections of the same x as one product: rows of weights, each times its scale, plus a
// bias.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace geores {

using torch::Tensor;

// scale ⊙ (W h) + bias, its values in the order of the bias: weight (bias.numel(), in); scale of
// any shape that broadcasts to the bias's along leading axes, or undefined for 1.
struct ProjectionWeights {
  Tensor weight, bias, scale;
};

// What all of them make of h (..., in), side by side: (..., Σ bias.numel()), in the parameters'
// type.
Tensor projected_together(const Tensor& h, const std::vector<ProjectionWeights>& projections);

// x (B, T, D) + rows (T, D), the same rows for each sequence.
Tensor add_to_each(const Tensor& x, const Tensor& rows);

}  // namespace geores
