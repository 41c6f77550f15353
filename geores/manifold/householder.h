// The delta operator of Deep Delta Learning and, at β = 2, the Householder reflection of
// EΔ-MHC-Geo (arXiv:2605.06729):
//   H_β = I − β k kᵀ,   H = H₂ = I − 2 k kᵀ                              k (n) unit, H (n, n)
// Invariants for |k| = 1: H_βᵀH_β = I + (β² − 2β) kkᵀ and det H_β = 1 − β, so H_β is orthogonal
// only at β = 0 and β = 2; ‖H_β x‖² = ‖x‖² + (β² − 2β)(kᵀx)². H² = I, det H = −1, Hk = −k.
// k is taken as given: normalise() and normalise_backward() are in matrix.h.
//
// Cost: O(n²) for the matrix, O(n) to apply it.
#pragma once

#include "geores/manifold/algebra/matrix.h"

namespace geores::manifold {

template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> delta_operator(const Vector<T, N>& k, T beta) {
  return identity<T, N>() - beta * outer(k, k);
}

template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> householder(const Vector<T, N>& k) {
  return delta_operator(k, T(2));
}

// H_β x without the matrix.
template <class T, int N>
GEORES_HOST_DEVICE constexpr Vector<T, N> apply_delta(const Vector<T, N>& k, T beta,
                                                      const Vector<T, N>& x) {
  return x - (beta * dot(k, x)) * k;
}

template <class T, int N>
struct DeltaGradient {
  Vector<T, N> k;
  T beta;
};

// From S = dL/dH_β:  dk = −β (S + Sᵀ) k,  dβ = −kᵀSk. Here k may also leave the unit sphere.
template <class T, int N>
GEORES_HOST_DEVICE constexpr DeltaGradient<T, N> delta_operator_backward(
    const Vector<T, N>& k, T beta, const Matrix<T, N>& cotangent) {
  const auto right = cotangent * k, left = transpose_times(cotangent, k);
  return {-beta * (right + left), -dot(k, right)};
}

}  // namespace geores::manifold
