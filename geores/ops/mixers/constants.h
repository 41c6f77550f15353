// The constant matrices of manifold/ as float64 tensors, for a number of streams known at run time.
#pragma once

#include <cstdint>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

inline constexpr int64_t kLargestFixedSize = 16;  // streams for which manifold/ is instantiated

Tensor all_permutations(int64_t n);                   // (n!, n, n), n <= 6; identity first
Tensor jpmhc_permutations(int64_t n, uint64_t seed);  // (6, n, n), identity first
Tensor helmert_basis(int64_t n);                      // (n, n−1), n >= 2

}  // namespace geores
