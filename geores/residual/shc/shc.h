// sHC: hyper-connections on the spectral sphere (arXiv:2603.20896, Eqs. 6-9).
//   H_res = J + (U_Z U) Σ (U_Z V)ᵀ,  J = 11ᵀ/n, U_Z the truncated Helmert basis (n × (n−1)),
//   U = Cayley(skew(γ_U tanh(τ x'W_U + b_U))), V likewise, Σ = diag tanh(τ x'W_Σ + b_Σ).
// Unlike a doubly stochastic matrix it may have negative entries, so it can keep information that
// averaging loses. Invariant: rows and columns sum to 1, ‖H_res‖₂ = 1; closed under products.
// Start: W = 0, b_U = b_V = 0, b_Σ = 4 (tanh 4 = 0.99933, so not quite the identity), τ = 0.01, γ =
// 1; γ has no gradient while b_U = 0 and W = 0. n = 2 has no skew entries, hence no U and V.
#pragma once

#include "geores/residual/hyper_connection.h"

namespace geores {

class Shc final : public HyperConnection {
 public:
  Shc(const ResidualConfig& config, const NoOptions& options);

 private:
  Tensor mixing(const std::vector<Tensor>& projected) override;
  Tensor rotated_basis(const Tensor& entries) const;  // U_Z U from U's skew entries

  Tensor left_amplitude_, right_amplitude_;
  Tensor helmert_;     // U_Z (n, n−1)
  Tensor skew_basis_;  // (k, (n−1)²): entry -> skew matrix
};

Connection shc_connection();

}  // namespace geores
