// JPmHC's mixers on streams of the full width (layout = expand): hyper-connections
// (hyper_connection.h) with the routes, starts and norms of mhc, and another set of matrices
// for H_res. So a comparison with mhc, mhc_lite, shc and hc (form = sigmoid) is one of H_res alone.
// z = α x'W + b is read by the mixer off the normalized state x' of a token; W = 0 and α = 0.01 at
// the start.
//   mixer         H_res                                                  z           b at the start
//   cayley        `cayley_iterations` steps towards the Cayley map of    n × n       0
//                 αW, W = z − zᵀ, α = cayley_alpha
//   cayley_exact  (I − αW/2)⁻¹(I + αW/2)                                 n × n       0
//   reflections   ⌊n/2⌋ factors H(k)H(l), H(k) = I − 2kkᵀ/‖k‖²:         2n a        k = l, random
//                 every rotation (Cartan and Dieudonné)                  factor
//   quaternions   x ↦ p x q̄ for n = 4, p and q of length one: every     2 × 4       p = q = 1
//                 rotation, without a solve (oHC, arXiv:2609.02672)
//   grassmann     U Uᵀ, U = qf(z) with n/2 columns                       n × n/2     random; takes
//                                                                                    Riemannian steps
//   permutation   Σ softmax(z)_m P_m over the six of jpmhc               6           (0, −8, …)
// Invariants: cayley_exact, reflections and quaternions are orthogonal with determinant +1 at all
// parameter values, cayley nearly so; those four start at H_res = I. grassmann is a projector,
// permutation is doubly stochastic.
// `sinkhorn` and `identity` on this layout are options of mhc.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "geores/residual/hyper_connection.h"
#include "geores/residual/jpmhc/grassmann.h"
#include "geores/residual/jpmhc/mixer.h"

namespace geores {

class ExpandedJpmhc final : public HyperConnection {
 public:
  ExpandedJpmhc(const ResidualConfig& config, const JpmhcOptions& options);
  std::vector<Tensor> manifold_parameters() const override;
  void manifold_step() override;

 private:
  RoutedSpec spec() const override {
    return spec_with(MixerRouting{[this](const std::vector<Tensor>& z) { return mixed(z[0]); }});
  }
  Tensor mixed(const Tensor& z) const;
  Tensor start() const;

  JpmhcOptions options_;
  std::shared_ptr<ScaledProjection> res_;
  Tensor permutations_;                     // (6, n²); only of mixer permutation
  std::optional<GrassmannSteps> subspace_;  // only of mixer grassmann
};

}  // namespace geores
