// Operators on n streams that are orthogonal for all values of their generators;
// manifold/isometry.h has the formulas.
#pragma once

#include <string>
#include <vector>

#include "geores/manifold/isometry.h"
#include "geores/ops/torch.h"

namespace geores {

using manifold::IsometryFactor;
using torch::Tensor;

const std::vector<std::string>& isometry_names();  // reflections, unitary, cayley
IsometryFactor isometry_from(const std::string& name);

// raw (..., r · generators of a factor) -> the product of r factors (..., n, n), computed in float64 and
// rounded to the type of raw. Unitary factors need an even n.
Tensor isometry(const Tensor& raw, IsometryFactor factor, int64_t n);

}  // namespace geores
