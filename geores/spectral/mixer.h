// Stream mixers A (n, n), drawn at random from the set that each connection keeps to, all seeded;
// logits are N(0, 1). This folder predicts their spectra at depth.
//
//   identity      I
//   bistochastic  Sinkhorn–Knopp of exp(logits), to convergence          mHC, JPmHC `sinkhorn`
//   orthogonal    Haar: QR of a Gaussian matrix, signs fixed             JPmHC's ideal, EΔ at γ = 1
//   cayley        s steps (default 2) of Y ← I + (α/2) W (I + Y)         JPmHC `cayley`
//                 from Y = I + αW, W = H − Hᵀ, α = 0.1
//   grassmann     UUᵀ, U Haar in St(n, max(1, n/2))                      JPmHC `grassmann`
//   permutation   softmax mixture of 6 permutations: identity, two       JPmHC `permutation`
//                 adjacent transpositions, two cyclic shifts, one seeded
//   shc           J + (U_Z U) Σ (U_Z V)ᵀ: J = 11ᵀ/n, U_Z truncated       sHC
//                 Helmert, U and V Cayley transforms of skew matrices
//                 of tanh(logits), Σ = diag tanh(logits)
//   gaussian      N(0, 1/n) entries                                      unconstrained HC
#pragma once

#include <Eigen/Core>
#include <cstdint>

namespace geores::spectral {

enum class Mixer {
  identity,
  bistochastic,
  orthogonal,
  cayley,
  grassmann,
  permutation,
  shc,
  gaussian
};

// Throws geores::Error for streams < 1. `layer` picks one of a family of independent draws of the
// same seed; `cayley_steps` is s above.
Eigen::MatrixXd draw_mixer(Mixer kind, int streams, std::uint64_t seed, int layer = 0,
                           int cayley_steps = 2);

}  // namespace geores::spectral
