// The gated rotation/reflection of EΔ (arXiv:2605.06729, Eq. 5) for batches of generators.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// H = I − 2 k kᵀ for unit k (..., n) -> (..., n, n). H² = I, det H = −1, H k = −k.
Tensor householder(const Tensor& k);

// G = γ Q + (1 − γ) H,  q and h (..., n, n), gamma (..., 1).
// Invariant: ‖GᵀG − I‖₂ = 4γ(1 − γ), σ_min(G) = |2γ − 1|, because QᵀH always has eigenvalue −1.
Tensor hybrid(const Tensor& q, const Tensor& h, const Tensor& gamma);

// 4γ(1 − γ), mean over all operators: the orthogonality defect that it penalises.
Tensor gate_penalty(const Tensor& gamma);

// Unit vectors along the last axis; the zero vector stays zero.
Tensor normalize(const Tensor& x);

// The operator's generators, one vector per operator, in the order of the reference code:
//   parameters (..., 3n + 2) = [u | v | β | k | γ] -> β softplus, k unit, γ sigmoid.
struct HybridGenerators {
  Tensor u, v, k;      // (..., n)
  Tensor beta, gamma;  // (..., 1)
};
HybridGenerators split_generators(const Tensor& parameters, int64_t n);
Tensor hybrid_operator(const HybridGenerators& generators);

}  // namespace geores
