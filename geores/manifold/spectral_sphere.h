// The spectral-sphere mixing matrix of sHC (arXiv:2603.20896, App. G):
//   H = J + (U_Z U) diag(σ) (U_Z V)ᵀ,  J = 11ᵀ/n        U, V (n−1, n−1) orthogonal, H (n, n)
// U_Z (n, n−1) is the truncated Helmert basis of 1^⊥. sHC takes U and V from cayley_transform() of
// a skew matrix, and σ = tanh(...). Invariants: U_ZᵀU_Z = I and 1ᵀU_Z = 0, so H1 = 1 and Hᵀ1 = 1;
// ‖H‖₂ = 1 for |σ| ≤ 1; products of such matrices are again of this form. Entries may be negative.
// Cost: O(n³).
#pragma once

#include "geores/manifold/algebra/matrix.h"

namespace geores::manifold {

// Column j (from 0): j+1 entries 1/√((j+1)(j+2)), then −(j+1)/√((j+1)(j+2)), then zeros.
template <class T, int N>
GEORES_HOST_DEVICE Matrix<T, N, N - 1> helmert_basis() {
  static_assert(N >= 2, "1 stream has nothing across the mean");
  Matrix<T, N, N - 1> basis{};
  for (int j = 0; j + 1 < N; ++j) {
    const T entry = T(1) / square_root(T(j + 1) * T(j + 2));
    for (int i = 0; i <= j; ++i) basis(i, j) = entry;
    basis(j + 1, j) = -T(j + 1) * entry;
  }
  return basis;
}

// M (= N − 1) is deduced from U and V.
template <class T, int M>
GEORES_HOST_DEVICE Matrix<T, M + 1> spectral_sphere(const Matrix<T, M>& u,
                                                    const Vector<T, M>& sigma,
                                                    const Matrix<T, M>& v) {
  const auto basis = helmert_basis<T, M + 1>();
  auto left = basis * u;
  for (int i = 0; i <= M; ++i)
    for (int j = 0; j < M; ++j) left(i, j) *= sigma[j];
  auto h = left * transpose(basis * v);
  for (int i = 0; i <= M; ++i)
    for (int j = 0; j <= M; ++j) h(i, j) += T(1) / T(M + 1);
  return h;
}

template <class T, int M>
struct SpectralSphereGradient {
  Matrix<T, M> u;
  Vector<T, M> sigma;
  Matrix<T, M> v;
};

// From S = dL/dH, with Z = U_Zᵀ S U_Z:  dU = Z V Σ,  dV = Zᵀ U Σ,  dσ_i = (Uᵀ Z V)_ii.
template <class T, int M>
GEORES_HOST_DEVICE SpectralSphereGradient<T, M> spectral_sphere_backward(
    const Matrix<T, M>& u, const Vector<T, M>& sigma, const Matrix<T, M>& v,
    const Matrix<T, M + 1>& cotangent) {
  const auto basis = helmert_basis<T, M + 1>();
  const auto z = transpose(basis) * cotangent * basis;
  SpectralSphereGradient<T, M> gradient{z * v, {}, transpose(z) * u};
  for (int j = 0; j < M; ++j) {
    gradient.sigma[j] = dot(column(u, j), column(gradient.u, j));
    for (int i = 0; i < M; ++i) {
      gradient.u(i, j) *= sigma[j];
      gradient.v(i, j) *= sigma[j];
    }
  }
  return gradient;
}

}  // namespace geores::manifold
