// sHC: hyper-connections (hyper_connection.h) whose mixer H_res lies on the spectral sphere
// (arXiv:2603.20896, Eqs. 6-9). x' is the normalized state of a token, as there.
//   H_res = J + (U_Z U) Σ (U_Z V)ᵀ
//   J = 11ᵀ/n takes the mean; the columns of U_Z (n × (n−1)) are the truncated Helmert basis, an
//   orthonormal basis of the vectors with sum 0
//   U = Cayley(skew(γ_U tanh(τ x'W_U + b_U))), V likewise, Σ = diag tanh(τ x'W_Σ + b_Σ)
//   skew(a) is the skew matrix of size n − 1 with the entries a above its diagonal; each projection
//   has a learned scale τ (α there); the amplitudes γ_U and γ_V are 1, as in the paper's App. G, or
//   learned, as in its §5.2 (fixed_amplitude = false)
// Cayley(A) = (I + A)⁻¹(I − A); the paper does not say which of the two conventions it uses.
// Invariant: the rows and columns of H_res sum to 1, and ‖H_res‖₂ = 1; products of such matrices
// are again of this form. Unlike a doubly stochastic matrix, H_res may have negative entries, so it
// can keep information that averaging loses.
// App. F of the paper shows that every matrix of the sphere has this form. Not all of them are reached:
// tanh and γ = 1 keep the entries of Σ and of the skew matrices below 1, so a matrix with another singular
// value of 1, such as a permutation, is a limit.
// Start: all W = 0, b_U = b_V = 0, b_Σ = 4, all τ = 0.01, γ_U = γ_V = 1. tanh 4 = 0.99933, so H_res
// is not quite the identity. A learned γ_U has no gradient while W_U = 0 and b_U = 0, likewise γ_V. For n = 2
// a skew matrix of size n − 1 has no entries, so there are no U and V.
#pragma once

#include "geores/residual/hyper_connection.h"

namespace geores {

struct ShcOptions {
  bool fixed_amplitude = true;
  std::string read_norm = "layer";
  HyperOptions hyper;

  Fields fields();
};

class Shc final : public HyperConnection {
 public:
  Shc(const ResidualConfig& config, const ShcOptions& options);

 private:
  RoutedSpec spec() const override {
    return spec_with(SphereRouting{helmert_, skew_basis_, left_amplitude_, right_amplitude_});
  }

  Tensor left_amplitude_, right_amplitude_;  // undefined: 1
  Tensor helmert_;                           // U_Z (n, n−1)
  Tensor skew_basis_;                        // (k, (n−1)²): entry -> skew matrix
};

Connection shc_connection();

}  // namespace geores
