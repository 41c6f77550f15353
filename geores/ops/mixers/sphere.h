// sHC's mixer (arXiv:2603.20896): H = J + (U_Z U) diag(σ) (U_Z V)ᵀ per token, U and V the Cayley
// maps of skew matrices given by their upper triangles.
//   left, right (B, T, (n−1)(n−2)/2), sigma (B, T, n−1)  ->  (B, T, n, n)
// Only the fused form is here; residual/shc is the definition.
#pragma once

#include <torch/torch.h>

namespace geores {

using torch::Tensor;

bool spectral_sphere_runs_fused(const Tensor& sigma);
Tensor fused_spectral_sphere(const Tensor& left, const Tensor& right, const Tensor& sigma);

}  // namespace geores
