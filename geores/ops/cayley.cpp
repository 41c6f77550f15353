#include "geores/ops/cayley.h"

#include "geores/base/error.h"

namespace geores {
namespace {

Tensor inner_product(const Tensor& a, const Tensor& b) { return (a * b).sum(-1, /*keepdim=*/true); }

// a / b where b > 0, and 0 where it is not.
Tensor divide_or_zero(const Tensor& a, const Tensor& b) {
  const auto positive = b > 0;
  return torch::where(positive, a / torch::where(positive, b, torch::ones_like(b)),
                      torch::zeros_like(a));
}

Tensor outer_product(const Tensor& a, const Tensor& b) { return a.unsqueeze(-1) * b.unsqueeze(-2); }

Tensor closed_form(const Tensor& u, const Tensor& v, const Tensor& beta) {
  // Lengths are taken after scaling by the largest entry, so that squares neither overflow nor
  // vanish.
  const auto u_scale = u.abs().amax(-1, true);
  const auto v_scale = v.abs().amax(-1, true);
  const auto u_scaled = divide_or_zero(u, u_scale);
  const auto v_scaled = divide_or_zero(v, v_scale);

  const auto e1 = divide_or_zero(u_scaled, inner_product(u_scaled, u_scaled).sqrt());

  // The part of v across e1 as −A e1: the entries of A are differences of products, which vanish
  // exactly for parallel pairs. What rounding leaves along e1 is removed from the unit vector.
  const auto a = skew(outer_product(u_scaled, v_scaled));
  const auto across = a.matmul(e1.unsqueeze(-1)).squeeze(-1).neg();
  const auto area = inner_product(across, across).sqrt();
  const auto unit = divide_or_zero(across, area);
  const auto cleaned = unit - e1 * inner_product(e1, unit);
  const auto e2 = divide_or_zero(cleaned, inner_product(cleaned, cleaned).sqrt());
  const auto omega = 0.5 * beta * area * u_scale * v_scale;

  // sin and 1 − cos of the angle, in ω or in 1/ω, whichever is at most 1.
  const auto large = omega.abs() > 1;
  const auto ones = torch::ones_like(omega);
  const auto small_ratio = torch::where(large, ones / torch::where(large, omega, ones), omega);
  const auto square = small_ratio * small_ratio;
  const auto sine = 2 * small_ratio / (1 + square);
  const auto versine = torch::where(large, 2 / (1 + square), 2 * square / (1 + square));

  return identity_like(u, u.size(-1)) -
         versine.unsqueeze(-1) * (outer_product(e1, e1) + outer_product(e2, e2)) -
         sine.unsqueeze(-1) * (outer_product(e1, e2) - outer_product(e2, e1));
}

class CayleyRotation : public torch::autograd::Function<CayleyRotation> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& u, const Tensor& v,
                        const Tensor& beta) {
    const auto q = closed_form(u, v, beta);
    context->save_for_backward({u, v, beta, q});
    return q;
  }

  // dL/dM = −½ (I+Q)ᵀ S (I+Q)ᵀ, then the chain through M = (β/2)(u vᵀ − v uᵀ).
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &u = saved[0], &v = saved[1], &beta = saved[2], &q = saved[3];
    const auto resolvent = (identity_like(q, q.size(-1)) + q).transpose(-1, -2);
    const auto dm = -0.5 * resolvent.matmul(gradients[0]).matmul(resolvent);
    const auto twist = skew(dm);  // dm − dmᵀ
    const auto twist_v = twist.matmul(v.unsqueeze(-1)).squeeze(-1);
    const auto twist_u = twist.matmul(u.unsqueeze(-1)).squeeze(-1);
    return {0.5 * beta * twist_v, -0.5 * beta * twist_u, 0.5 * inner_product(u, twist_v)};
  }
};

}  // namespace

Tensor cayley_rotation(const Tensor& u, const Tensor& v, const Tensor& beta) {
  require(u.dim() >= 1 && u.sizes() == v.sizes(), "cayley_rotation",
          "u and v must have the same shape (..., n), got {} and {} values", u.numel(), v.numel());
  require(beta.dim() == u.dim() && beta.size(-1) == 1, "cayley_rotation",
          "beta must have shape (..., 1) with the batch of u, got {} values", beta.numel());
  return CayleyRotation::apply(u, v, beta);
}

Tensor cayley_solve(const Tensor& m) {
  const auto identity = identity_like(m, m.size(-1)).expand_as(m);
  // The _ex form does not wait for the device to report singular matrices: I + m never is one.
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
