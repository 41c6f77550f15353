// sHC's mixer (arXiv:2603.20896): H = J + (U_Z U) diag(σ) (U_Z V)ᵀ per token, U and V the Cayley
// maps of skew matrices given by their upper triangles.
//   left, right (B, T, (n−1)(n−2)/2), sigma (B, T, n−1)  ->  (B, T, n, n)
// The fused form; residual/shc has the definition.
#pragma once

#include <optional>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// nullopt where no kernel fits.
std::optional<Tensor> fused_spectral_sphere(const Tensor& left, const Tensor& right,
                                            const Tensor& sigma);

}  // namespace geores
