// JPmHC residual (arXiv:2602.18308). layout = expand, with streams of the full width, is a class of its
// own (expanded.h); this is split. X (n, d) is one token as n streams of width
// d = D/n, and the sublayer F works at width d:
//   X'_i = Σ_j (H_res)_ij X_j + write_i F(LN(Σ_j read_j X_j))
// The paper's Eq. 14 has no norm before F: read_norm = none. LN is the default for transformers whose
// sublayers bring no norm of their own.
// The paper has n × n matrices H_pre and H_post in place of the vectors read and write. H_pre acts
// only through the means of its columns, which are read; H_post only through the sums of its rows,
// which are write.
//
// One of seven mixers computes H_res, read and write for each token:
//   mixer         H_res                                              read and write
//   cayley        `cayley_iterations` fixed-point steps for the      softmaxes
//                 Cayley map of αW: nearly orthogonal
//   cayley_exact  (I − αW/2)⁻¹(I + αW/2): exactly orthogonal         softmaxes
//   sinkhorn      doubly stochastic, by Sinkhorn–Knopp               sigmoids
//   grassmann     U Uᵀ, U with n/2 orthonormal columns               sigmoids
//   permutation   mixture of six permutations                        sigmoids
//   identity      I: a control                                       softmaxes
//   sinkhorn_softmax  that of sinkhorn, a control that separates     softmaxes
//                 the matrix from the routes
// The Cayley mixers: α is the option cayley_alpha, and W = H̃ − H̃ᵀ. One linear projection of
// LN(x), x all D values of the token, gives the n × n matrix H̃ and the logits of both softmaxes.
// The option `bias` gives this projection a bias, as the EΔ paper's code does; the JPmHC paper's
// parameter count (102,400 at n = 4, D = 2048) has none.
// For a recursive model (model/recursive/), generator_norm = rms uses x / √(mean x² + 1e-5) instead
// of LN(x) for the softmaxes, and read_norm = none omits the LN before F: the model itself
// normalizes the state after each connection.
// The other mixers project RMSNorm(x) linearly (mixer.cpp). Sinkhorn's gradient is by
// default that of the limit, not of the iterations that were run; sinkhorn_gradient = gauss_seidel is
// the paper's approximation of it (Alg. 7).
// Probes: operator = H_res (B, T, n, n); pre = read, post = write (B, T, n).
#pragma once

#include <memory>
#include <vector>

#include "geores/modules/layers.h"
#include "geores/residual/jpmhc/mixer.h"
#include "geores/residual/registry.h"
#include "geores/residual/routed_connection.h"

namespace geores {

class Jpmhc final : public RoutedConnection {
 public:
  Jpmhc(const ResidualConfig& config, const JpmhcOptions& options);
  std::vector<Tensor> manifold_parameters() const override;
  void manifold_step() override;

 private:
  RoutedSpec spec() const override;

  std::shared_ptr<LayerNorm> norm_;  // null: the sublayer reads the streams without a norm
  std::shared_ptr<JpmhcMixer> mixer_;
};

Connection jpmhc_connection();

}  // namespace geores
