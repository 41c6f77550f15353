// Sinkhorn-Knopp in log space: the doubly stochastic matrix diag(r) exp(logits) diag(c).
//   logits (..., n, n), clamped to ±10; `iterations` times rows then columns  ->  P (..., n, n)
// Columns sum to 1 to rounding, rows as well as the iterations reached.
//
// Two gradients, which differ while the iteration has not converged:
//   implicit  differentiates the fixed point: dL/dlogits = P ⊙ (S − u1ᵀ − 1vᵀ) with
//             u + Pv = (P⊙S)1, Pᵀu + v = (P⊙S)ᵀ1, solved directly ((I − PᵀP) on 1^⊥).
//             Memory O(n²) a matrix. Gauss-Seidel sweeps, as in JPmHC, converge at rate σ₂(P)² and
//             are useless near the identity, where mHC starts.
//             Both forms, composed and fused, are exact where rows and columns sum to 1; where the
//             iteration has not converged they differ by as much as the rows miss it.
//   unrolled  differentiates the iterations that were run. Memory O(iterations · n²) a matrix.
#pragma once

#include <string>

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

enum class SinkhornGradient { implicit, unrolled };
SinkhornGradient sinkhorn_gradient_from(const std::string& name);  // "implicit" or "unrolled"

Tensor sinkhorn(const Tensor& logits, int64_t iterations, SinkhornGradient gradient);

// Plain Sinkhorn-Knopp on exp(logits), with the EΔ paper's guard of 1e-8 against division by zero
// in every sum; its gradient is that of the iterations.
inline constexpr double kSinkhornGuard = 1e-8;
Tensor guarded_sinkhorn(const Tensor& logits, int64_t iterations);

}  // namespace geores
