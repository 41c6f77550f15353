// JPmHC residual (arXiv:2602.18308), split layout. X (n, d) is one token as n streams of width
// d = D/n, and the sublayer F works at width d:
//   X'_i = Σ_j (H_res)_ij X_j + write_i F(LN(Σ_j read_j X_j))
// The paper writes n × n matrices H_pre and H_post instead of the two vectors. Only their sums act:
// read_j is the mean of column j of H_pre, and write_i is the sum of row i of H_post.
//
// H_res, read and write are made anew for each token, by one of five mixers:
//   mixer         H_res                                           read and write
//   cayley        `cayley_iterations` fixed-point steps for the      softmax of the same projection
//                 Cayley map of αW, W = H̃ − H̃ᵀ: nearly orthogonal
//   cayley_exact  (I − αW/2)⁻¹(I + αW/2): exactly orthogonal      softmax of the same projection
//   sinkhorn      doubly stochastic, implicit gradient            sigmoids of an RMSNorm
//   grassmann     U Uᵀ, U with n/2 orthonormal columns            sigmoids of an RMSNorm
//   permutation   mixture of six permutations                     sigmoids of an RMSNorm
// The Cayley mixers read H̃ and the logits of both softmaxes off one linear projection of LN(x).
// bias: the EΔ paper's code gives this projection a bias; the JPmHC paper's parameter count (102,400
// at n = 4, nd = 2048) has none.
// Probes: operator = H_res (B, T, n, n); pre = read, post = write (B, T, n).
#pragma once

#include <memory>

#include "geores/modules/layers.h"
#include "geores/residual/jpmhc/mixer.h"
#include "geores/residual/registry.h"

namespace geores {

class Jpmhc final : public Residual {
 public:
  Jpmhc(const ResidualConfig& config, const JpmhcOptions& options);
  Tensor forward(const Tensor& x, const Sublayer& f, Trace& trace) override;
  const Traits& traits() const override { return traits_; }
  std::vector<Tensor> manifold_parameters() const override;
  void manifold_step() override;

 private:
  Traits traits_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<JpmhcMixer> mixer_;
};

Connection jpmhc_connection();

}  // namespace geores
