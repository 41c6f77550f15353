// The Riemannian step of JPmHC's Grassmann mixer (arXiv:2602.18308), H_res = U Uᵀ, UᵀU = I:
//   G_h = (I − UUᵀ) G                                              horizontal part of G = dL/dU
//   m ← b₁m + (1 − b₁) G_h,   s ← b₂s + (1 − b₂) ‖G_h‖²/(np)       b = (0.9, 0.999)
//   M̂ = −(m/(1 − b₁ᵗ)) / (√(s/(1 − b₂ᵗ)) + ε)                      downhill, and horizontal
//   W = M̂Uᵀ − UM̂ᵀ,  Y₀ = U + αM̂,  Y ← U + (α/2) W (U + Y)         2 passes, α = 0.01
//   U ← Q of Y = QR with R_jj > 0                                  U, G, m, M̂, Y (n, p), W (n, n)
// The second moment is one number for the whole matrix. Moments of single entries would depend on
// the basis that represents the subspace, while UUᵀ, and with it the model, does not. m is
// projected to the new point, so that it stays horizontal there.
//
// Invariants: UᵀU = I after every step; H_res is a projector of rank p. Cost: O(n²p) a pass.
#pragma once

#include "geores/manifold/algebra/qr.h"

namespace geores::manifold {

template <class T>
struct GrassmannOptions {
  T rate = T(0.01);
  T first_decay = T(0.9);
  T second_decay = T(0.999);
  T epsilon = T(1e-8);
  int cayley_steps = 2;
};

// The state that a checkpoint must store besides U.
template <class T, int N, int P>
struct GrassmannState {
  Matrix<T, N, P> momentum{};
  T second_moment = 0;
  T first_power = 1;  // b₁ᵗ and b₂ᵗ, for the bias correction
  T second_power = 1;
};

// (I − UUᵀ) X: the part that moves the subspace.
template <class T, int N, int P>
GEORES_HOST_DEVICE constexpr Matrix<T, N, P> horizontal_projection(const Matrix<T, N, P>& u,
                                                                   const Matrix<T, N, P>& x) {
  return x - u * (transpose(u) * x);
}

// Moves U by α along the horizontal direction M̂: fixed-point Cayley, then QR.
template <class T, int N, int P>
GEORES_HOST_DEVICE Matrix<T, N, P> cayley_retraction(const Matrix<T, N, P>& u,
                                                     const Matrix<T, N, P>& direction, T rate,
                                                     int steps) {
  const auto w = direction * transpose(u) - u * transpose(direction);
  auto y = u + rate * direction;
  for (int step = 0; step < steps; ++step) y = u + (rate / T(2)) * (w * (u + y));
  return qr(y).q;
}

template <class T, int N, int P>
GEORES_HOST_DEVICE void grassmann_step(Matrix<T, N, P>& u, const Matrix<T, N, P>& gradient,
                                       GrassmannState<T, N, P>& state,
                                       const GrassmannOptions<T>& options = {}) {
  const auto horizontal = horizontal_projection(u, gradient);
  state.momentum = options.first_decay * state.momentum + (T(1) - options.first_decay) * horizontal;
  state.second_moment = options.second_decay * state.second_moment +
                        (T(1) - options.second_decay) * inner(horizontal, horizontal) / T(N * P);
  state.first_power *= options.first_decay;
  state.second_power *= options.second_decay;
  const T size = square_root(state.second_moment / (T(1) - state.second_power)) + options.epsilon;
  const auto direction = (T(-1) / (size * (T(1) - state.first_power))) * state.momentum;
  u = cayley_retraction(u, direction, options.rate, options.cayley_steps);
  state.momentum = horizontal_projection(u, state.momentum);
}

// H_res = UUᵀ and, from S = dL/dH_res, dL/dU = (S + Sᵀ)U.
template <class T, int N, int P>
GEORES_HOST_DEVICE constexpr Matrix<T, N> subspace_projector(const Matrix<T, N, P>& u) {
  return u * transpose(u);
}

template <class T, int N, int P>
GEORES_HOST_DEVICE constexpr Matrix<T, N, P> subspace_projector_backward(
    const Matrix<T, N, P>& u, const Matrix<T, N>& cotangent) {
  return (cotangent + transpose(cotangent)) * u;
}

}  // namespace geores::manifold
