// The Cayley rotation of a plane, in closed form (EΔ-MHC-Geo, arXiv:2605.06729):
//   A = u vᵀ − v uᵀ,  M = (β/2) A,  Q = (I + M)⁻¹ (I − M)         u, v (n), β scalar, Q (n, n)
// A has rank 2, so Q turns the plane span(u, v) by θ = 2 atan ω and leaves everything orthogonal to
// it unchanged. Here ω = βμ/2 and μ = √(|u|²|v|² − (u·v)²). With e₁ = u/|u| and e₂ the direction of
// the part of v orthogonal to e₁,
//   Q = I − 2ω²/(1+ω²) (e₁e₁ᵀ + e₂e₂ᵀ) − 2ω/(1+ω²) (e₁e₂ᵀ − e₂e₁ᵀ).
// u = 0, v = 0, β = 0 or u ∥ v give I. No solve and no pivot.
//
// Invariants: QᵀQ = I, det Q = +1, eigenvalues e^{∓iθ} and 1, never −1. Every θ in (−π, π) can be
// reached: βμ = 2 tan(θ/2).
//
// Precision: the entries of A come from an exact difference of products, and e₂ comes from A e₁. So
// a nearly parallel pair loses no digits, and an exactly parallel one gives exactly I. u and v are
// scaled by powers of two, and for |ω| > 1 the fractions are written in 1/ω, so nothing overflows.
// max |QᵀQ − I| is 1.1e-6 in float and 2.3e-15 in double for scales 1e-6..1e6 and β 0..1e8.
//
// Cost: O(n²), and one square root for each of e₁ and e₂. cayley_general.h solves for any M;
// cayley_iterative.h has the fixed-point iteration.
#pragma once

#include "geores/manifold/algebra/matrix.h"

namespace geores::manifold {

// The plane span(u, v), and φ = atan ω: Cayley turns the plane by 2φ.
template <class T, int N>
struct RotationPlane {
  Vector<T, N> e1, e2;  // orthonormal; e2 = 0 if u and v span no plane
  T mu;     // √(|u|²|v|² − (u·v)²), the area: A = μ (e₁e₂ᵀ − e₂e₁ᵀ)
  T omega;  // βμ/2
  T cos_squared, sin_squared, sin_times_cos;  // of φ: 1/(1+ω²), ω²/(1+ω²), ω/(1+ω²)
};

template <class T, int N>
GEORES_HOST_DEVICE RotationPlane<T, N> rotation_plane(const Vector<T, N>& u, const Vector<T, N>& v,
                                                      T beta) {
  RotationPlane<T, N> plane{};
  plane.cos_squared = T(1);
  const T u_scale = power_of_two_below(largest_entry(u));
  const T v_scale = power_of_two_below(largest_entry(v));

  // w = −A e₁ = |u| times the part of v orthogonal to e₁, all of it after scaling.
  plane.e1 = normalise(u).direction;
  Vector<T, N> w{};
  for (int i = 0; i < N; ++i)
    for (int j = i + 1; j < N; ++j) {
      const T a = difference_of_products(u[i] / u_scale, v[j] / v_scale,  //
                                         u[j] / u_scale, v[i] / v_scale);
      w[i] -= a * plane.e1[j];
      w[j] += a * plane.e1[i];
    }
  const auto across = normalise(w);
  if (across.length == T(0)) return plane;
  plane.e2 = across.direction;

  plane.mu = product_of_three(across.length, u_scale, v_scale);
  plane.omega = product_of_three(beta / T(2) * across.length, u_scale, v_scale);
  if (absolute(plane.omega) > T(1)) {
    const T inverse = T(1) / plane.omega;
    plane.sin_squared = T(1) / (T(1) + inverse * inverse);
    plane.sin_times_cos = inverse * plane.sin_squared;
    plane.cos_squared = inverse * plane.sin_times_cos;
  } else {
    plane.cos_squared = T(1) / (T(1) + plane.omega * plane.omega);
    plane.sin_times_cos = plane.omega * plane.cos_squared;
    plane.sin_squared = plane.omega * plane.sin_times_cos;
  }
  return plane;
}

template <class T, int N>
GEORES_HOST_DEVICE constexpr Matrix<T, N> cayley_rotation(const RotationPlane<T, N>& plane) {
  const T turn = T(2) * plane.sin_squared, shear = T(2) * plane.sin_times_cos;
  auto q = identity<T, N>();
  for (int i = 0; i < N; ++i) {
    const T row1 = turn * plane.e1[i] - shear * plane.e2[i];
    const T row2 = turn * plane.e2[i] + shear * plane.e1[i];
    for (int j = 0; j < N; ++j) q(i, j) -= row1 * plane.e1[j] + row2 * plane.e2[j];
  }
  return q;
}

template <class T, int N>
GEORES_HOST_DEVICE Matrix<T, N> cayley_rotation(const Vector<T, N>& u, const Vector<T, N>& v,
                                                T beta) {
  return cayley_rotation(rotation_plane(u, v, beta));
}

// (I + M)⁻¹ x for x in the plane; (I + M)⁻ᵀ x if `transposed`. Near a half turn the result has size
// |x|/ω and keeps full relative precision.
template <class T, int N>
GEORES_HOST_DEVICE constexpr Vector<T, N> cayley_resolvent_in_plane(
    const RotationPlane<T, N>& plane, const Vector<T, N>& x, bool transposed = false) {
  if (plane.omega == T(0)) return x;
  const T shear = transposed ? -plane.sin_times_cos : plane.sin_times_cos;
  const T x1 = dot(plane.e1, x), x2 = dot(plane.e2, x);
  return (plane.cos_squared * x1 - shear * x2) * plane.e1 +
         (plane.cos_squared * x2 + shear * x1) * plane.e2;
}

// (I + M)⁻¹ x for any x. It equals (I + Q)x/2 but does not cancel near a half turn.
template <class T, int N>
GEORES_HOST_DEVICE constexpr Vector<T, N> cayley_resolvent(const RotationPlane<T, N>& plane,
                                                           const Vector<T, N>& x,
                                                           bool transposed = false) {
  const auto turned = cayley_resolvent_in_plane(plane, x, transposed);
  if (N <= 2 || plane.omega == T(0)) return turned;
  return x - dot(plane.e1, x) * plane.e1 - dot(plane.e2, x) * plane.e2 + turned;
}

template <class T, int N>
struct CayleyGradient {
  Vector<T, N> u, v;
  T beta;
};

// S = dL/dQ (n, n). With K = (I + M)⁻¹ = (I + Q)/2:  dL/dM = −2 KᵀSKᵀ, hence
//   du = −β (KᵀSKᵀ − K Sᵀ K) v,   dv = β (KᵀSKᵀ − K Sᵀ K) u,   dβ = (μ/2) dL/dω,
//   dL/dω = −[4ω (S₁₁ + S₂₂) + 2(1 − ω²)(S₁₂ − S₂₁)] / (1 + ω²)²,  S_ab = e_aᵀ S e_b.
// No solve; the result is finite where the plane degenerates. Cost: O(n²).
template <class T, int N>
GEORES_HOST_DEVICE CayleyGradient<T, N> cayley_rotation_backward(const RotationPlane<T, N>& plane,
                                                                 const Vector<T, N>& u,
                                                                 const Vector<T, N>& v, T beta,
                                                                 const Matrix<T, N>& cotangent) {
  CayleyGradient<T, N> gradient{};
  const auto skew_part = [&](const Vector<T, N>& x) {
    const auto left =
        cayley_resolvent(plane, cotangent * cayley_resolvent_in_plane(plane, x, true), true);
    const auto right =
        cayley_resolvent(plane, transpose_times(cotangent, cayley_resolvent_in_plane(plane, x)));
    return left - right;
  };
  gradient.u = -beta * skew_part(v);
  gradient.v = beta * skew_part(u);

  const auto s1 = cotangent * plane.e1, s2 = cotangent * plane.e2;
  const T trace_in_plane = dot(plane.e1, s1) + dot(plane.e2, s2);
  const T twist = dot(plane.e1, s2) - dot(plane.e2, s1);
  // slope = (1 + ω²) dL/dω; its factor is (μ/2)/(1 + ω²), the same as (ω/β)/(1 + ω²).
  const T cos_double = plane.cos_squared - plane.sin_squared;
  const T slope = -(T(4) * plane.sin_times_cos * trace_in_plane + T(2) * cos_double * twist);
  gradient.beta = absolute(plane.omega) > T(1) ? slope * (plane.sin_times_cos / beta)
                                               : slope * (plane.mu / T(2) * plane.cos_squared);
  return gradient;
}

template <class T, int N>
GEORES_HOST_DEVICE CayleyGradient<T, N> cayley_rotation_backward(const Vector<T, N>& u,
                                                                 const Vector<T, N>& v, T beta,
                                                                 const Matrix<T, N>& cotangent) {
  return cayley_rotation_backward(rotation_plane(u, v, beta), u, v, beta, cotangent);
}

}  // namespace geores::manifold
