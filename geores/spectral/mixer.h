// The zoo of n x n stream mixers A, drawn at random from the set that each connection keeps to, all
// seeded; logits are N(0, 1). What their spectra do at depth is what this folder predicts.
//
//   identity      I
//   bistochastic  Sinkhorn–Knopp of exp(logits), to convergence           mHC, JPmHC `sinkhorn`
//   orthogonal    Haar: QR of a Gaussian matrix, signs fixed              the ideal of JPmHC, EΔ at
//   γ = 1 cayley[:s]    s steps (default 2) of Y ← I + (α/2) W (I + Y) from Y = I + αW, W = H − Hᵀ,
//   α = 0.1
//                                                                         JPmHC `cayley`
//   grassmann     UUᵀ, U Haar in St(n, max(1, n/2))                       JPmHC `grassmann`
//   permutation   softmax mixture of 6 permutations: identity, two adjacent transpositions, two
//   cyclic
//                 shifts, one seeded                                      JPmHC `permutation`
//   shc           J + (U_Z U) Σ (U_Z V)ᵀ: J = 11ᵀ/n, U_Z truncated Helmert, U and V Cayley
//   transforms of
//                 skew matrices of tanh(logits), Σ = diag tanh(logits)    sHC
//   gaussian      N(0, 1/n) entries                                       unconstrained HC, as a
//   warning
#pragma once

#include <Eigen/Dense>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace geores::spectral {

struct MixerKind {
  std::string_view name;
  std::string_view summary;
};
const std::vector<MixerKind>& mixer_kinds();

// Throws geores::Error for an unknown name (with the nearest known one) and for streams < 1.
// `layer` picks one of a family of independent draws of the same seed.
Eigen::MatrixXd make_mixer(const std::string& name, int streams, std::uint64_t seed, int layer = 0);

}  // namespace geores::spectral
