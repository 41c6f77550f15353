// Cayley maps of batches of small matrices. All functions accept any leading batch shape, float32
// or float64, and any device; they neither branch on values nor synchronise with the device.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// The rotation of EΔ (arXiv:2605.06729, Eqs. 2-4) in closed form.
//   u, v (..., n), beta (..., 1)  ->  Q (..., n, n)
//   M = (β/2)(u vᵀ − v uᵀ),  Q = (I + M)⁻¹(I − M)
// M has rank 2, so Q rotates the plane span(u, v) by 2·atan(ω), ω = (β/2)·area(u, v), and fixes the
// rest. The backward pass needs no solve: (I + M)⁻¹ = (I + Q)/2. Invariant: QᵀQ = I, det Q = +1 for
// every finite input, parallel and zero pairs (Q = I) included. Cost: O(n²) forward, O(n³)
// backward per matrix.
// backward per matrix.
Tensor cayley_rotation(const Tensor& u, const Tensor& v, const Tensor& beta);

// The same map by its definition, one LU solve: m (..., n, n) skew -> (I + m)⁻¹(I − m). It serves
// general skew matrices (sHC, JPmHC's exact mixer) and checks of the closed form.
Tensor cayley_solve(const Tensor& m);

// JPmHC's fixed-point approximation (arXiv:2602.18308): w (..., n, n) skew,
//   Y₀ = I + αw,  Y ← I + (α/2) w (I + Y), `iterations` times.
// Orthogonal only approximately: for two iterations YᵀY − I = −M⁴/4 − M⁶/16 with M = αw.
Tensor cayley_iterative(const Tensor& w, double alpha, int64_t iterations);

// w − wᵀ over the last two axes.
Tensor skew(const Tensor& w);

// The n × n identity with the dtype and device of `like`.
Tensor identity_like(const Tensor& like, int64_t n);

}  // namespace geores
