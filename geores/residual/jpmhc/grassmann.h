// JPmHC's Grassmann mixer: H_res = U Uᵀ, the projector onto a p-dimensional subspace, p = n/2.
//   per token  U(x) = qf(U + α ⊙ x'W), qf the orthonormal factor with positive diagonal of R
//   U itself is a point of St(n, p) and takes Riemannian steps (below), not AdamW's.
// Invariant: UᵀU = I_p, H_res² = H_res, trace p. A projector loses n − p directions at every layer.
//
// Step (momentum 0.9, second moment 0.999, step size α = 0.01, s = 2):
//   g = ∇ − U Uᵀ∇                                   horizontal projection
//   m ← 0.9 m + 0.1 g, projected again; v ← 0.999 v + 0.001 ‖g‖²;  m̂ = −m̂/√v̂
//   W = m̂Uᵀ − Um̂ᵀ,  Y₀ = U + αm̂,  Y ← U + (α/2) W (U + Y),  U ← qf(Y)
// m, v and the step count are buffers, saved and loaded with the model.
#pragma once

#include "geores/residual/jpmhc/sigmoid_routing.h"

namespace geores {

class GrassmannMixer final : public SigmoidRouting {
 public:
  GrassmannMixer(int64_t width, int64_t n, double step_size);
  std::vector<Tensor> manifold_parameters() const override { return {basis()}; }
  void manifold_step() override;

 private:
  Tensor mixing(const Tensor& projected) override;
  const Tensor& basis() const { return res_->bias(); }  // U

  double step_size_;
  Tensor momentum_, variance_, steps_;
};

// Orthonormal columns spanning those of a (..., n, p), R with positive diagonal: Gram-Schmidt, each
// column twice. Differentiable, and never waits for the device as a library QR would.
Tensor orthonormal_factor(const Tensor& a);

}  // namespace geores
