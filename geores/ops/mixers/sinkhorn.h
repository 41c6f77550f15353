// Sinkhorn-Knopp: the doubly stochastic matrix diag(r) exp(logits) diag(c).
//     logits (..., n, n); `iterations` times rows and columns  ->  P (..., n, n)
// The axis that is normalised last sums to 1 up to rounding; the other one has the error of the
// iteration. mHC normalises the rows last (Xie et al., arXiv:2512.24880, Eq. 9), JPmHC and the
// public mHC-lite code the columns. JPmHC clamps logits to ±10, and clamped logits have no
// gradient; mHC does not clamp. The composed form works in log space. The kernel divides, and a logit
// counts as at most 80 below the largest of its line that is normalised first, 700 in float64.
//
// Three gradients, which differ while the iteration has not converged:
//   implicit  differentiates the fixed point: dL/dlogits = P ⊙ (S − u1ᵀ − 1vᵀ) with
//             u + Pv = (P⊙S)1, Pᵀu + v = (P⊙S)ᵀ1, solved directly in a way that keeps its digits next
//             to permutations and blocks (manifold/sinkhorn.h). Memory O(n²) a matrix.
//   gauss_seidel  the same system by sixteen sweeps, as JPmHC's Alg. 7 solves it. The error falls by
//             σ₂(P)² a sweep: 87 % of the gradient is left near the identity, where mHC starts, and
//             9e-5 of it for N(0, 1) logits of four streams (rms). Composed on every device.
//   unrolled  differentiates the iterations that were run. Memory a matrix: composed O(iterations ·
//             n²); kernels keep the logits alone.
#pragma once

#include <string>

#include "geores/kernels/mixers/sinkhorn.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

enum class SinkhornGradient { implicit, unrolled, gauss_seidel };
inline constexpr int64_t kGaussSeidelSweeps = 16;  // k of JPmHC's Alg. 7
SinkhornGradient sinkhorn_gradient_from(const std::string& name);

enum class SinkhornOrder { rows_last, columns_last };
SinkhornOrder sinkhorn_order_from(const std::string& name);  // "rows_last" or "columns_last"

struct SinkhornSpec {
  int64_t iterations = 20;
  SinkhornGradient gradient = SinkhornGradient::implicit;
  SinkhornOrder order = SinkhornOrder::columns_last;
  double logit_bound = 10;  // 0: none
  double guard = 0;         // added to every sum, with the unrolled gradient
  bool softmax = false;     // the first division adds its guard to the quotients
};
kernels::Sinkhorn sinkhorn_kernel(const SinkhornSpec& spec);  // as the kernel takes it

Tensor sinkhorn(const Tensor& logits, const SinkhornSpec& spec);

// Plain Sinkhorn-Knopp on exp(logits), with the EΔ paper's guard of 1e-8 against division by zero
// in every sum; the gradient is that of the iterations.
inline constexpr double kSinkhornGuard = 1e-8;
SinkhornSpec guarded_sinkhorn_spec(int64_t iterations);
Tensor guarded_sinkhorn(const Tensor& logits, int64_t iterations);

// Sinkhorn-Knopp as in DeepSeek-V4, on matrices in the orientation that mixes streams: softmax over
// each column plus `guard`, the rows divided by (sum + guard), then (iterations − 1) times columns
// and rows. Rows come last. The gradient is that of the iterations.
Tensor softmax_sinkhorn(const Tensor& logits, int64_t iterations, double guard);

}  // namespace geores
