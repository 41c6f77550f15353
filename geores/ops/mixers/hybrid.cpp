#include "geores/ops/mixers/hybrid.h"

#include "geores/base/error.h"
#include "geores/kernels/pooled/operators.h"
#include "geores/kernels/sizes.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/run/dispatch.h"

namespace geores {
namespace {

using namespace fused;

class FusedHybrid : public torch::autograd::Function<FusedHybrid> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& u, const Tensor& v, const Tensor& k,
                        const Tensor& beta, const Tensor& gamma) {
    const tensor_list p = {u.contiguous(), v.contiguous(), k.contiguous(), beta.contiguous(),
                           gamma.contiguous()};
    context->save_for_backward(p);
    auto shape = u.sizes().vec();
    shape.push_back(u.size(-1));
    auto g = torch::empty(shape, u.options());
    on(u, [&]<class T>(T, auto... place) {
      kernels::hybrid_operators_forward(place..., arrays<const T>(p), values<T>(g), beta.numel(),
                                        u.size(-1));
    });
    return g;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto p = context->get_saved_variables();
    const auto dg = gradients[0].contiguous();
    tensor_list result;
    for (const auto& tensor : p) result.push_back(torch::empty_like(tensor));
    on(dg, [&]<class T>(T, auto... place) {
      kernels::hybrid_operators_backward(place..., arrays<const T>(p), values<T>(dg),
                                         arrays<T>(result), p[3].numel(), p[0].size(-1));
    });
    return result;
  }

 private:
  template <class T>
  static kernels::HybridArrays<T> arrays(const tensor_list& p) {
    using Value = std::remove_const_t<T>;
    return {values<Value>(p[0]), values<Value>(p[1]), values<Value>(p[2]), values<Value>(p[3]),
            values<Value>(p[4])};
  }
};

}  // namespace

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
  const auto n = g.u.size(-1);
  if ((runs_cpu_kernel(g.u) && kernels::is_compiled_size(n)) ||
      (runs_cuda_kernel(g.u) && kernels::is_device_mixer_size(n)))
    return FusedHybrid::apply(g.u, g.v, g.k, g.beta, g.gamma);
  return hybrid(cayley_rotation(g.u, g.v, g.beta), householder(g.k), g.gamma);
}

}  // namespace geores
