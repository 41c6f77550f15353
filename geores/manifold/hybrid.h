// The hybrid operator of EΔ-MHC-Geo (arXiv:2605.06729), a gated blend of a rotation and a
// reflection:
//   G = γ Q + (1 − γ) H,   Q = Cayley(u, v, β),   H = I − 2 k kᵀ     u, v, k (n), |k| = 1, G (n, n)
// Invariants: QᵀH has determinant −1, hence an eigenvalue −1, hence exactly, for γ in [0, 1],
//   ‖GᵀG − I‖₂ = 4γ(1 − γ),   σ_min(G) = |2γ − 1|,   σ_max(G) ≤ 1,
//   ‖Gx‖² − ‖x‖² = −γ(1 − γ) ‖Qx − Hx‖² ≤ 0.
// The gate penalty 4γ(1 − γ) is the orthogonality defect, and G is singular at γ = ½. γ = 1 is
// the Cayley operator alone, γ = 0 the Householder.
//
// Cost: O(n²), forward and backward.
#pragma once

#include "geores/manifold/cayley.h"
#include "geores/manifold/householder.h"

namespace geores::manifold {

// The generators of one operator; the same shape holds their gradients.
template <class T, int N>
struct HybridGenerators {
  Vector<T, N> u, v, k;
  T beta, gamma;
};

template <class T, int N>
GEORES_HOST_DEVICE Matrix<T, N> hybrid_operator(const HybridGenerators<T, N>& p) {
  return p.gamma * cayley_rotation(p.u, p.v, p.beta) + (T(1) - p.gamma) * householder(p.k);
}

// From S = dL/dG:  Q receives γS, H receives (1 − γ)S, dγ = ⟨S, Q − H⟩.
template <class T, int N>
GEORES_HOST_DEVICE HybridGenerators<T, N> hybrid_operator_backward(const HybridGenerators<T, N>& p,
                                                                   const Matrix<T, N>& cotangent) {
  const auto plane = rotation_plane(p.u, p.v, p.beta);
  const auto rotation = cayley_rotation_backward(plane, p.u, p.v, p.beta, p.gamma * cotangent);
  const auto reflection = delta_operator_backward(p.k, T(2), (T(1) - p.gamma) * cotangent);
  const T gamma = inner(cotangent, cayley_rotation(plane) - householder(p.k));
  return {rotation.u, rotation.v, reflection.k, rotation.beta, gamma};
}

// 4γ(1 − γ) without its weight, and its slope 4 − 8γ. The slope is zero at γ = ½, and descent moves
// γ away from there, to 0 or 1.
template <class T>
GEORES_HOST_DEVICE constexpr T gate_penalty(T gamma) {
  return T(4) * gamma * (T(1) - gamma);
}

template <class T>
GEORES_HOST_DEVICE constexpr T gate_penalty_slope(T gamma) {
  return T(4) - T(8) * gamma;
}

}  // namespace geores::manifold
