#include "geores/ops/sinkhorn.h"

#include "geores/base/error.h"
#include "geores/ops/cayley.h"
#include "geores/ops/implementation.h"

namespace geores {
namespace {

constexpr double kLogitBound = 10.0;

Tensor iterate(Tensor log_p, int64_t iterations) {
  for (int64_t i = 0; i < iterations; ++i) {
    log_p = log_p - log_p.logsumexp(-1, /*keepdim=*/true);
    log_p = log_p - log_p.logsumexp(-2, /*keepdim=*/true);
  }
  return log_p.exp();
}

class ImplicitSinkhorn : public torch::autograd::Function<ImplicitSinkhorn> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& logits,
                        int64_t iterations) {
    const auto p = iterate(logits, iterations);
    context->save_for_backward({p});
    return p;
  }

  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    const auto p = context->get_saved_variables()[0];
    const auto n = p.size(-1);
    const auto transposed = p.transpose(-1, -2);
    const auto weighted = p * gradients[0];
    const auto rows = weighted.sum(-1, true);                       // (..., n, 1)
    const auto columns = weighted.sum(-2, true).transpose(-1, -2);  // (..., n, 1)
    // I − PᵀP is singular along 1 only; adding 11ᵀ/n fixes the free constant and nothing else.
    const auto system =
        identity_like(p, n) - transposed.matmul(p) + torch::full({n, n}, 1.0 / n, p.options());
    const auto v = std::get<0>(torch::linalg_solve_ex(system, columns - transposed.matmul(rows)));
    const auto u = rows - p.matmul(v);
    return {p * (gradients[0] - u - v.transpose(-1, -2)), Tensor()};
  }
};

}  // namespace

SinkhornGradient sinkhorn_gradient_from(const std::string& name) {
  if (name == "implicit") return SinkhornGradient::implicit;
  if (name == "unrolled") return SinkhornGradient::unrolled;
  fail("sinkhorn", "gradient must be implicit or unrolled, got '{}'", name);
}

Tensor sinkhorn(const Tensor& logits, int64_t iterations, SinkhornGradient gradient) {
  require(iterations >= 1, "sinkhorn", "iterations must be >= 1, got {}", iterations);
  require(logits.dim() >= 2 && logits.size(-1) == logits.size(-2), "sinkhorn",
          "logits must be square matrices (..., n, n), got a last axis of {}", logits.size(-1));
  const auto bounded = logits.clamp(-kLogitBound, kLogitBound);
  if (gradient == SinkhornGradient::unrolled || implementation() == Implementation::stock)
    return iterate(bounded, iterations);
  return ImplicitSinkhorn::apply(bounded, iterations);
}

}  // namespace geores
