// The delta rule on wide residual streams on a GPU (residual/ddl/ddl.h). Each operation returns
// nothing where no kernel fits; then the connection runs composed.
#pragma once

#include <optional>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// Σ_j weight_j X_j, the same weights for all tokens: weight (n), x (B, T, n, d) -> read (B, T, d), and x
// itself for its other uses, whose gradients are added in the same pass.
struct StreamSum {
  Tensor read, skip;
};
std::optional<StreamSum> fused_stream_sum(const Tensor& weight, const Tensor& x);

// X_j + β (v_j − ⟨k, X_j⟩) k with k = y/‖y‖: y (B, T, d), beta (B, T, 1), v (B, T, n).
std::optional<Tensor> fused_delta_write(const Tensor& x, const Tensor& y, const Tensor& beta,
                                        const Tensor& v);

}  // namespace geores
