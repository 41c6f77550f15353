// Convex mixtures of permutations of n streams (manifold/permutation.h).
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// Σ_m softmax(logits)_m P_m: logits (B, T, m), permutations (m, n²) -> (B, T, n, n). The products are
// exact in every precision, so that rows and columns sum to 1.
Tensor permutation_mixture(const Tensor& logits, const Tensor& permutations);

// The same for all n! permutations in the order of all_permutations() (constants.h), which kernels know.
Tensor all_permutations_mixture(const Tensor& logits, const Tensor& permutations);

}  // namespace geores
