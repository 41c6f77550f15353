#include "geores/ops/hybrid.h"

#include "geores/base/error.h"
#include "geores/ops/cayley.h"

namespace geores {

Tensor householder(const Tensor& k) {
  return identity_like(k, k.size(-1)) - 2 * k.unsqueeze(-1) * k.unsqueeze(-2);
}

Tensor hybrid(const Tensor& q, const Tensor& h, const Tensor& gamma) {
  const auto g = gamma.unsqueeze(-1);
  return g * q + (1 - g) * h;
}

Tensor gate_penalty(const Tensor& gamma) { return (4 * gamma * (1 - gamma)).mean(); }

Tensor normalize(const Tensor& x) {
  return torch::nn::functional::normalize(
      x, torch::nn::functional::NormalizeFuncOptions().dim(-1).eps(1e-12));
}

HybridGenerators split_generators(const Tensor& parameters, int64_t n) {
  require(parameters.size(-1) == 3 * n + 2, "split_generators",
          "expected 3n + 2 = {} values per operator, got {}", 3 * n + 2, parameters.size(-1));
  const auto parts = parameters.split_with_sizes({n, n, 1, n, 1}, -1);
  return {.u = parts[0],
          .v = parts[1],
          .k = normalize(parts[3]),
          .beta = torch::softplus(parts[2]),
          .gamma = torch::sigmoid(parts[4])};
}

Tensor hybrid_operator(const HybridGenerators& g) {
  return hybrid(cayley_rotation(g.u, g.v, g.beta), householder(g.k), g.gamma);
}

}  // namespace geores
