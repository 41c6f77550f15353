#include "geores/ops/mixers/cayley.h"

#include "geores/base/error.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using fused::save;
using fused::saved;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

Tensor inner_product(const Tensor& a, const Tensor& b) { return (a * b).sum(-1, /*keepdim=*/true); }

// a / b where b > 0, else 0.
Tensor divide_or_zero(const Tensor& a, const Tensor& b) {
  const auto positive = b > 0;
  return torch::where(positive, a / torch::where(positive, b, torch::ones_like(b)),
                      torch::zeros_like(a));
}

Tensor outer_product(const Tensor& a, const Tensor& b) { return a.unsqueeze(-1) * b.unsqueeze(-2); }

// The plane of a rotation and half of its angle: M = ω (e₁e₂ᵀ − e₂e₁ᵀ) with orthonormal e₁, e₂.
struct Plane {
  Tensor e1, e2;          // (..., n); zero where u and v span no plane
  Tensor cosine_squared;  // 1/(1 + ω²)           (..., 1)
  Tensor sine_squared;    // ω²/(1 + ω²)
  Tensor sine_cosine;     // ω/(1 + ω²)
};

Plane plane_of(const Tensor& u, const Tensor& v, const Tensor& beta) {
  // Vectors are scaled by their largest entry before their length is computed, so that squares
  // neither overflow nor underflow.
  const auto u_scale = u.abs().amax(-1, true);
  const auto v_scale = v.abs().amax(-1, true);
  const auto u_scaled = divide_or_zero(u, u_scale);
  const auto v_scaled = divide_or_zero(v, v_scale);
  const auto e1 = divide_or_zero(u_scaled, inner_product(u_scaled, u_scaled).sqrt());

  // The component of v orthogonal to e1 as −A e1: the entries of A are differences of products,
  // which vanish exactly for parallel pairs. Rounding errors along e1 are removed from the unit
  // vector.
  const auto a = skew(outer_product(u_scaled, v_scaled));
  const auto across = a.matmul(e1.unsqueeze(-1)).squeeze(-1).neg();
  const auto area = inner_product(across, across).sqrt();
  const auto unit = divide_or_zero(across, area);
  const auto cleaned = unit - e1 * inner_product(e1, unit);
  const auto e2 = divide_or_zero(cleaned, inner_product(cleaned, cleaned).sqrt());
  const auto omega = 0.5 * beta * area * u_scale * v_scale;

  // Computed in ω or in 1/ω, whichever is at most 1.
  const auto large = omega.abs() > 1;
  const auto ones = torch::ones_like(omega);
  const auto ratio = torch::where(large, ones / torch::where(large, omega, ones), omega);
  const auto square = ratio * ratio;
  const auto smaller = square / (1 + square), greater = 1 / (1 + square);
  return {.e1 = e1,
          .e2 = e2,
          .cosine_squared = torch::where(large, smaller, greater),
          .sine_squared = torch::where(large, greater, smaller),
          .sine_cosine = ratio / (1 + square)};
}

Tensor rotation_of(const Plane& p) {
  return identity_like(p.e1, p.e1.size(-1)) -
         2 * p.sine_squared.unsqueeze(-1) *
             (outer_product(p.e1, p.e1) + outer_product(p.e2, p.e2)) -
         2 * p.sine_cosine.unsqueeze(-1) * (outer_product(p.e1, p.e2) - outer_product(p.e2, p.e1));
}

// (I + M)⁻¹ x, or (I − M)⁻¹ x = its transpose, written out in the plane: for a rotation by almost
// π, (I + Q)/2 would be only rounding there.
Tensor in_plane(const Plane& p, const Tensor& x, bool transposed) {
  const auto along1 = inner_product(p.e1, x), along2 = inner_product(p.e2, x);
  const auto sine = transposed ? -p.sine_cosine : p.sine_cosine;
  return (p.cosine_squared * along1 - sine * along2) * p.e1 +
         (sine * along1 + p.cosine_squared * along2) * p.e2;
}

Tensor resolvent(const Plane& p, const Tensor& x, bool transposed) {
  const auto along1 = inner_product(p.e1, x), along2 = inner_product(p.e2, x);
  return x - along1 * p.e1 - along2 * p.e2 + in_plane(p, x, transposed);
}

// The same for u and v, which are in the plane if there is one.
Tensor resolvent_of_generator(const Plane& p, const Tensor& x, bool transposed) {
  const auto spans = p.e2.abs().amax(-1, true) > 0;
  return torch::where(spans, in_plane(p, x, transposed), x);
}

Tensor times(const Tensor& matrix, const Tensor& x) {
  return matrix.matmul(x.unsqueeze(-1)).squeeze(-1);
}

class CayleyRotation : public torch::autograd::Function<CayleyRotation> {
  struct Kept {
    Tensor u, v, beta;
    Plane plane;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.u), f(s.v), f(s.beta), f(s.plane.e1), f(s.plane.e2), f(s.plane.cosine_squared),
          f(s.plane.sine_squared), f(s.plane.sine_cosine);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& u, const Tensor& v,
                        const Tensor& beta) {
    const auto plane = plane_of(u, v, beta);
    save(context, Kept{.u = u, .v = v, .beta = beta, .plane = plane});
    return rotation_of(plane);
  }

  // With R = (I + M)⁻¹ and S = dL/dQ: dL/dM = −2 RᵀSRᵀ, then the chain through
  // M = (β/2)(u vᵀ − v uᵀ). Only products with u and v are needed.
  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto [u, v, beta, p] = saved<Kept>(context);
    const auto& s = gradients[0];
    const auto s_transposed = s.transpose(-1, -2);
    const auto forward_v = times(s, resolvent_of_generator(p, v, true));               // S Rᵀ v
    const auto backward_v = times(s_transposed, resolvent_of_generator(p, v, false));  // Sᵀ R v
    const auto forward_u = times(s, resolvent_of_generator(p, u, true));
    const auto backward_u = times(s_transposed, resolvent_of_generator(p, u, false));
    const auto du = resolvent(p, backward_v, false) - resolvent(p, forward_v, true);
    const auto dv = resolvent(p, forward_u, true) - resolvent(p, backward_u, false);
    const auto dbeta = inner_product(resolvent_of_generator(p, u, true), backward_v) -
                       inner_product(resolvent_of_generator(p, u, false), forward_v);
    return {beta * du, beta * dv, dbeta};
  }
};

}  // namespace

Tensor cayley_rotation(const Tensor& u, const Tensor& v, const Tensor& beta) {
  require(u.dim() >= 1 && u.sizes() == v.sizes(), "cayley_rotation",
          "u and v must have the same shape (..., n), got {} and {} values", u.numel(), v.numel());
  require(beta.dim() == u.dim() && beta.size(-1) == 1, "cayley_rotation",
          "beta must have shape (..., 1) with the batch of u, got {} values", beta.numel());
  if (execution().form == Form::stock)
    return cayley_solve(0.5 * beta.unsqueeze(-1) * skew(outer_product(u, v)));
  return CayleyRotation::apply(u, v, beta);
}

Tensor cayley_solve(const Tensor& m) {
  const auto identity = identity_like(m, m.size(-1)).expand_as(m);
  // The _ex form does not synchronise to report singular matrices: I + m is never singular.
  return std::get<0>(torch::linalg_solve_ex(identity + m, identity - m));
}

Tensor cayley_iterative(const Tensor& w, double alpha, int64_t iterations) {
  require(iterations >= 0, "cayley_iterative", "iterations must be >= 0, got {}", iterations);
  const auto identity = identity_like(w, w.size(-1));
  const auto scaled = alpha * w;
  auto y = identity + scaled;
  for (int64_t i = 0; i < iterations; ++i) y = identity + 0.5 * scaled.matmul(identity + y);
  return y;
}

Tensor skew(const Tensor& w) { return w - w.transpose(-1, -2); }

Tensor identity_like(const Tensor& like, int64_t n) { return torch::eye(n, like.options()); }

}  // namespace geores
