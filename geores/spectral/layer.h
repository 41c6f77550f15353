// The random model whose spectrum this folder predicts: a deep residual Jacobian
//   J = Y_L … Y_1,   Y_l = A_l ⊗ I_p + X_l,   N = n p,
// with A_l the (n, n) mixer of layer l and X_l the Jacobian of its sublayer, random and
// independent.
//   plain branch:            X_l has i.i.d. Gaussian entries of variance σ²/N
//   hyper-connection branch: X_l = (c rᵀ) ⊗ W, W (p, p) i.i.d. Gaussian of variance σ²/p,
//                            c = row sums of H_post (n), r = column means of H_pre (n)
// σ² = σ_w² E[φ'²] is the variance of the sublayer's Jacobian. The theory is the limit p → ∞.
// JPmHC (arXiv:2602.18308) states this model in its section on Jacobian spectra.
#pragma once

#include <Eigen/Core>
#include <optional>
#include <vector>

namespace geores::spectral {

struct Branch {
  Eigen::VectorXd spread;  // c (n): how the sublayer's output is written to the streams
  Eigen::VectorXd gather;  // r (n): how the streams are read
};

struct Layer {
  Eigen::MatrixXd mixer;         // A_l (n, n)
  double sigma2 = 0;             // σ_l² >= 0
  std::optional<Branch> branch;  // absent: plain branch
};

// Layers in order of depth: the first one touches the input.
using Chain = std::vector<Layer>;

// Throws geores::Error in one line: no layer, mixer not square or of another size than the first,
// NaN or infinite entry, σ² negative or not finite, branch vector of the wrong length.
void check(const Chain& chain);

// `depth` layers with total branch variance sigma2_total, shared equally: σ_l² = sigma2_total /
// depth. The mixers are taken in turn and repeat: one mixer gives a homogeneous chain.
Chain make_chain(const std::vector<Eigen::MatrixXd>& mixers, int depth, double sigma2_total);

// E tr_N JJᵀ and E tr_N (JJᵀ)² (tr_N normalised), the first exact for every p, the second in the
// limit p → ∞; for one layer with A = a I they are a² + σ² and a⁴ + 4a²σ² + 2σ⁴. A recursion over
// the layers on the first and second moment tensors of the (n, n) blocks, O(L n⁵): no fixed point,
// no integral, so it is an independent check of every resolvent of this folder.
struct Moments {
  double first = 0;
  double second = 0;
};
Moments exact_moments(const Chain& chain);

}  // namespace geores::spectral
