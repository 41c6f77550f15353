// JPmHC's Grassmann mixer: H_res = U Uᵀ, the projector onto a p-dimensional subspace, p = n/2.
//   per token  U(x) = qf(U + α ⊙ x'W), qf the orthonormal factor with positive diagonal of R
//   U itself is a point of St(n, p) and takes Riemannian steps (below), not AdamW's.
// Invariant: UᵀU = I_p, H_res² = H_res, trace p. A projector loses n − p directions at every layer.
//
// The step is that of manifold/grassmann.h, which has its formulas: the first moment, the second as one
// number for the matrix, both with Adam's bias correction. Unlike the paper's Alg. 9 as printed, it goes
// down the gradient.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// Riemannian steps of one U (n, p); the moments are buffers of its module, saved and loaded with it.
class GrassmannSteps {
 public:
  GrassmannSteps(torch::nn::Module& owner, const Tensor& u, double step_size);
  void step(Tensor& u);  // by u's gradient; nothing without one

 private:
  double step_size_;
  Tensor momentum_, variance_, steps_;
};

Tensor random_subspace(int64_t n);       // U (n, n/2)
Tensor projector_onto(const Tensor& z);  // qf(z) qf(z)ᵀ: z (..., n, p) -> (..., n, n)

// Orthonormal columns spanning those of a (..., n, p), R with positive diagonal: Gram-Schmidt, each
// column twice. Differentiable, and never waits for the device as a library QR would.
Tensor orthonormal_factor(const Tensor& a);

}  // namespace geores
