// JPmHC residual (arXiv:2602.18308), split layout, per token, F at width d = D/n:
//   X' = H_res X + H_post (F(LN(mean_i (H_pre X)_i)) ⊗ 1)
// Only the row sums of H_post and the column means of H_pre act. A mixer therefore gives the n × n
// matrix `res` and two vectors: F sees Σ_j read_j X_j, and stream i gets write_i F.
//
//   mixer         H_res                                           routing
//   cayley        iterative Cayley of W = H̃ − H̃ᵀ (α, s)           softmax, one fused projection
//   cayley_exact  (I − αW/2)⁻¹(I + αW/2): exactly orthogonal      softmax, one fused projection
//   sinkhorn      Birkhoff, implicit gradient                     RMSNorm and sigmoids
//   grassmann     U Uᵀ, U ∈ St(n, n/2): a projector               RMSNorm and sigmoids
//   permutation   mixture of six permutations                     RMSNorm and sigmoids
// bias: the EΔ paper's code gives the fused projection a bias, the JPmHC paper's parameter count
// (102,400 at n = 4, nd = 2048) has none.
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
