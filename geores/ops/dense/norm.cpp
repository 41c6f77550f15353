#include "geores/ops/dense/norm.h"

#include "geores/base/error.h"
#include "geores/kernels/norms/norm.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

constexpr double kLayerEps = 1e-5;

template <class T>
kernels::Norm<T> norm_of(bool layer, double eps, const Tensor& weight, const Tensor& bias) {
  return {.kind = layer ? kernels::NormKind::layer : kernels::NormKind::rms,
          .weight = values<T>(weight),
          .bias = values<T>(bias),
          .eps = T(eps)};
}

// Outputs: the normalized x, and x. With a branch both are of x + branch.
class FusedNorm : public torch::autograd::Function<FusedNorm> {
  struct Kept {
    Tensor x, weight, statistics;
    Tensor weight_slot;
    bool layer, has_bias, has_branch;
    double eps;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.weight), f(s.statistics);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& branches, const OptionalTensor& weights,
                             const OptionalTensor& biases, bool layer, double eps, bool with_skip,
                             bool in_product) {
    const auto x = input.contiguous(), branch = contiguous(branches), weight = contiguous(weights),
               bias = contiguous(biases);
    const auto width = x.size(-1), rows = width > 0 ? x.numel() / width : 0;
    auto y = in_product ? for_product_of(x, x.sizes()) : torch::empty_like(x);
    auto statistics = torch::empty({rows, 2}, x.options());
    const auto sum = branch.defined() ? torch::empty_like(x) : x;
    on(x, y, [&]<class T, class A>(T, A, auto... stream) {
      kernels::norm_forward(stream..., values<T>(x), norm_of<T>(layer, eps, weight, bias),
                            values<A>(y), statistics_in<T>(statistics), rows, width,
                            values<A>(branch), values<T>(sum));
    });
    save(context, Kept{.x = sum,
                       .weight = weight,
                       .statistics = statistics,
                       .weight_slot = gradient_slot(weight),
                       .layer = layer,
                       .has_bias = bias.defined(),
                       .has_branch = branch.defined(),
                       .eps = eps});
    context->set_materialize_grads(
        false);  // avoids zeros of the state's size for an unused skip output
    if (!with_skip) return {y};
    return {y, branch.defined() ? sum : input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto width = s.x.size(-1), rows = width > 0 ? s.x.numel() / width : 0;
    const auto skip = gradients.size() > 1 ? contiguous(gradients[1]) : Tensor();
    if (!gradients[0].defined())
      return {skip, s.has_branch ? skip : Tensor(), {}, {}, {}, {}, {}, {}};
    const auto dy = gradients[0].contiguous();
    const auto dx = torch::empty_like(s.x),
               dbranch = s.has_branch ? torch::empty_like(dy) : Tensor();
    const auto dweight = parameter_sum(s.weight, s.weight_slot);
    const auto dbias = s.has_bias ? torch::zeros({width}, s.x.options()) : Tensor();
    on(s.x, dy, [&]<class T, class A>(T, A, auto... stream) {
      kernels::norm_backward(stream..., values<T>(s.x), statistics_in<T>(s.statistics),
                             norm_of<T>(s.layer, s.eps, s.weight, Tensor()), values<A>(dy),
                             values<T>(skip), values<T>(dx), values<T>(dweight.sum),
                             values<T>(dbias), rows, width, values<A>(dbranch));
    });
    return {dx, dbranch, dweight.gradient, dbias, {}, {}, {}, {}};
  }
};

bool norm_runs_fused(const Tensor& x) {
  return KernelChoice("norm", x)
      .need_on_gpu(x.dim() > 0 && x.size(-1) <= kernels::kNormRow, "rows of at most 1024 values")
      .need_on_gpu(x.numel() > 0, "at least one value")
      .runs();
}

void require_width(const Tensor& x, const Tensor& weight) {
  require(x.dim() >= 1 && weight.numel() == x.size(-1) && weight.scalar_type() == x.scalar_type(),
          "layer_norm", "{} weights do not fit a last axis of {}", weight.numel(),
          x.dim() > 0 ? x.size(-1) : 0);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!norm_runs_fused(x)) return torch::layer_norm(x, {x.size(-1)}, weight, bias, kLayerEps);
  require_width(x, weight);
  return FusedNorm::apply(x, OptionalTensor(), maybe(weight), maybe(bias), true, kLayerEps, false,
                          false)[0];
}

NormAndSkip layer_norm_and_skip(const State& state, const Tensor& weight, const Tensor& bias) {
  if (!norm_runs_fused(state.x)) {
    const auto x = state.total();
    return {layer_norm(x, weight, bias), x};
  }
  require_width(state.x, weight);
  const auto [x, branch] = for_kernels(state);
  const auto outputs =
      FusedNorm::apply(x, maybe(branch), maybe(weight), maybe(bias), true, kLayerEps, true, true);
  return {outputs[0], outputs[1]};
}

Tensor rms_normalize(const Tensor& x, double eps) {
  if (norm_runs_fused(x))
    return FusedNorm::apply(x, OptionalTensor(), OptionalTensor(), OptionalTensor(), false,
                            rms_epsilon(eps), false, false)[0];
  return x * (x.square().mean(-1, /*keepdim=*/true) + rms_epsilon(eps)).rsqrt();
}

NormAndSkip rms_norm_and_skip(const Tensor& x, const Tensor& weight, double eps) {
  if (!norm_runs_fused(x)) {
    const auto plain = rms_normalize(x, eps);
    return {weight.defined() ? plain * weight : plain, x};
  }
  const auto outputs = FusedNorm::apply(x, OptionalTensor(), maybe(weight), OptionalTensor(), false,
                                        rms_epsilon(eps), true, true);
  return {outputs[0], outputs[1]};
}

}  // namespace geores
