#include "geores/ops/mixers/hybrid.h"

#include "geores/base/error.h"
#include "geores/kernels/pooled/operators.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;

class FusedHybrid : public torch::autograd::Function<FusedHybrid> {
  struct Kept {
    HybridGenerators generators;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      auto& g = s.generators;
      f(g.u), f(g.v), f(g.k), f(g.beta), f(g.gamma);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& u, const Tensor& v, const Tensor& k,
                        const Tensor& beta, const Tensor& gamma) {
    const HybridGenerators generators{.u = u.contiguous(),
                                      .v = v.contiguous(),
                                      .k = k.contiguous(),
                                      .beta = beta.contiguous(),
                                      .gamma = gamma.contiguous()};
    save(context, Kept{generators});
    auto shape = u.sizes().vec();
    shape.push_back(u.size(-1));
    auto g = torch::empty(shape, u.options());
    on(u, [&]<class T>(T, auto... cuda_stream) {
      kernels::hybrid_operators_forward(cuda_stream..., arrays<const T>(generators), values<T>(g),
                                        beta.numel(), u.size(-1));
    });
    return g;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto generators = saved<Kept>(context).generators;
    const auto dg = gradients[0].contiguous();
    const HybridGenerators d{.u = torch::empty_like(generators.u),
                             .v = torch::empty_like(generators.v),
                             .k = torch::empty_like(generators.k),
                             .beta = torch::empty_like(generators.beta),
                             .gamma = torch::empty_like(generators.gamma)};
    on(dg, [&]<class T>(T, auto... cuda_stream) {
      kernels::hybrid_operators_backward(cuda_stream..., arrays<const T>(generators), values<T>(dg),
                                         arrays<T>(d), generators.beta.numel(),
                                         generators.u.size(-1));
    });
    return {d.u, d.v, d.k, d.beta, d.gamma};
  }

 private:
  template <class T>
  static kernels::HybridArrays<T> arrays(const HybridGenerators& g) {
    using Value = std::remove_const_t<T>;
    return {values<Value>(g.u), values<Value>(g.v), values<Value>(g.k), values<Value>(g.beta),
            values<Value>(g.gamma)};
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

Tensor normalize(const Tensor& x) { return x / x.norm(2, -1, true).clamp_min(1e-12).expand_as(x); }

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
  KernelChoice choice("hybrid_operator", g.u);
  if (need_mixer(choice, g.u.size(-1)).runs())
    return FusedHybrid::apply(g.u, g.v, g.k, g.beta, g.gamma);
  return hybrid(cayley_rotation(g.u, g.v, g.beta), householder(g.k), g.gamma);
}

}  // namespace geores
