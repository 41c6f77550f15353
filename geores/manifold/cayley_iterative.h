// The fixed-point Cayley mixer of JPmHC (arXiv:2602.18308):
//   W = H̃ − H̃ᵀ,  Y₀ = I + αW,  Y ← I + (α/2) W (I + Y), s times                H̃, W, Y (n, n)
// It tends to (I − αW/2)⁻¹(I + αW/2) when ‖αW‖₂ < 2; for finite s it is only nearly orthogonal.
// With M = αW, exactly,
//   YᵀY − I  =  M⁴/4  (s = 1),   −M⁴/4 − M⁶/16  (s = 2),   M⁶/16 + M⁸/64  (s = 3).
// For a singular value m < 2 of M these are m⁴/4, then (1 − m²/4) of it, then m²/4 of that:
//   s = 2 is below 1e-3 iff every m is below 0.2525 or within 2.5e-4 of 2;
//   s = 1 is as good (1.6 % worse at that bound); s = 3 is below 1e-3 up to m = 0.507.
// At αW = 2J, J² = −I, two steps give Y = −I exactly; three give I, and so on with period 4.
//
// Cost: s products of n×n matrices. The backward pass recomputes Y instead of storing it: s(s+1)/2
// more products.
#pragma once

#include "geores/manifold/algebra/matrix.h"

namespace geores::manifold {

// `steps` passes Y ← I + (α/2) W (I + Y), starting from Y₀ = I + αW.
template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> cayley_iteration(const Matrix<T, N>& w, T alpha,
                                                           int steps) {
  const auto one = identity<T, N>();
  const auto half = (alpha / T(2)) * w;
  auto y = one + alpha * w;
  for (int step = 0; step < steps; ++step) y = one + half * (one + y);
  return y;
}

// The same from H̃; only its skew part matters.
template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> iterative_cayley(const Matrix<T, N>& h, T alpha,
                                                           int steps) {
  return cayley_iteration(h - transpose(h), alpha, steps);
}

// dL/dH̃ from S = dL/dY: the exact gradient of `steps` passes.
template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> iterative_cayley_backward(const Matrix<T, N>& h, T alpha,
                                                                    int steps,
                                                                    const Matrix<T, N>& cotangent) {
  const auto one = identity<T, N>();
  const auto w = h - transpose(h);
  const auto half_transposed = (alpha / T(2)) * transpose(w);
  Matrix<T, N> dw{};
  auto dy = cotangent;
  for (int step = steps; step > 0; --step) {
    const auto before = cayley_iteration(w, alpha, step - 1);
    dw = dw + (alpha / T(2)) * (dy * transpose(one + before));
    dy = half_transposed * dy;
  }
  dw = dw + alpha * dy;
  return dw - transpose(dw);
}

}  // namespace geores::manifold
