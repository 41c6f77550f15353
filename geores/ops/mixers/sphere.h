// sHC's mixer (arXiv:2603.20896): H = J + (U_Z U) diag(σ) (U_Z V)ᵀ per token, U and V the Cayley
// maps of skew matrices given by their upper triangles, U_Z the truncated Helmert basis.
//   left, right (B, T, (n−1)(n−2)/2), sigma (B, T, n−1)  ->  (B, T, n, n)
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// helmert (n, n−1); skew_basis = upper_triangle_to_skew(n − 1). For two streams left,
// right and skew_basis are undefined: U = V = 1.
Tensor spectral_sphere(const Tensor& left, const Tensor& right, const Tensor& sigma,
                       const Tensor& helmert, const Tensor& skew_basis);

// (m(m−1)/2, m²): entry above the diagonal -> skew matrix, in float64.
Tensor upper_triangle_to_skew(int64_t m);

}  // namespace geores
