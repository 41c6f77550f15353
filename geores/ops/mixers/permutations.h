// The convex mixture of all permutations of n streams, fused (manifold/permutation.h);
// residual/mhc_lite has the definition.
#pragma once

#include <optional>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// Σ_m softmax(logits)_m P_m: logits (B, T, n!) -> (B, T, n, n); permutations in the order of
// all_permutations() (constants.h). nullopt where no kernel fits.
std::optional<Tensor> fused_permutation_mixture(const Tensor& logits, int64_t n);

}  // namespace geores
