// The spectrum of a deep residual Jacobian, any depth, any mixers (all different if they like).
//
// Write J = Y_L … Y_1 as a chain of nodes x₀ – y₁ – x₁ – y₂ – … – x_{L−1} – y_L, each carrying n
// streams, and average its resolvent at w over the Gaussian X_l. With R the inverse of the block
// tridiagonal matrix that has
//   diagonal blocks   d(x_{l−1}) = [w if l = 1] − σ_l² b_l D_l,   d(y_l) = [w if l = L] − σ_l² a_l
//   C_l couplings         x_{l−1} – y_l: −A_l,                        y_l – x_l: +I
// the unknown scalars close by
//   plain branch              C = D = I,            a_l = tr_n R[x_{l−1}],   b_l = tr_n R[y_l]
//   hyper-connection branch   C = ccᵀ, D = rrᵀ,     a_l = rᵀ R[x_{l−1}] r,   b_l = cᵀ R[y_l] c
// and the answer is tr_n R[x₀] = a(w), see resolvent.h. (The self-energy of i.i.d. X is block
// *diagonal*; printed_equation.h shows what happens when it is put off the diagonal.)
//
// Invariant: Im a_l, Im b_l <= 0; w a(w) → 1. Cost: one forward and one backward Schur sweep per
// iteration, O(L n³), some 20 to 60 iterations per point.
#pragma once

#include <memory>

#include "geores/spectral/fixed_point.h"
#include "geores/spectral/layer.h"
#include "geores/spectral/resolvent.h"

namespace geores::spectral {

class ChainEquation {
 public:
  explicit ChainEquation(Chain chain, Convergence convergence = {});
  ~ChainEquation();
  ChainEquation(ChainEquation&&) noexcept;

  // tr_n R[x₀] at w, Im w > 0. Starts from the last solution (the first time from −i everywhere).
  // Throws geores::Error with w, residual and iteration count when the fixed point is not reached.
  Complex solve(Complex w);

  int iterations() const { return last_.iterations; }  // of the last solve
  double residual() const { return last_.residual; }

  struct Sweep;  // one evaluation of the closure, compiled for each n

 private:
  std::unique_ptr<Sweep> sweep_;
  Convergence convergence_;
  Eigen::VectorXcd unknowns_;  // a_1 … a_L, b_1 … b_L
  FixedPoint last_;
};

ResolventFactory chain_resolvent(const Chain& chain, const Convergence& convergence = {});

}  // namespace geores::spectral
