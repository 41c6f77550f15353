#include "geores/ops/updates/gated_update.h"

#include "geores/kernels/updates/gated_update.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

class FusedGatedUpdate : public torch::autograd::Function<FusedGatedUpdate> {
  struct Kept {
    Tensor x, v, raw, norm_weight, bias, alpha, statistics;
    Tensor norm_weight_slot, bias_slot, alpha_slot;
    bool gated, scaled;
    double scale, offset;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.v), f(s.raw), f(s.norm_weight), f(s.bias), f(s.alpha), f(s.statistics);
    }

    // raw (rows, [gate | beta]).
    template <class T, class A>
    kernels::GatedUpdate<T, A> in_kernels() const {
      const auto width = x.size(-1);
      const A* first = values<A>(raw);
      return {.x = values<T>(x),
              .v = values<A>(v),
              .gate = gated ? first : nullptr,
              .beta = !scaled ? nullptr
                      : gated ? first + width
                              : first,
              .stride = raw.size(-1),
              .norm = {.weight = values<T>(norm_weight)},
              .bias = values<T>(bias),
              .alpha = values<T>(alpha),
              .scale = T(scale),
              .offset = T(offset),
              .rows = x.numel() / width,
              .width = width};
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& branch,
                        const Tensor& raws, const OptionalTensor& norm_weight,
                        const OptionalTensor& bias, const OptionalTensor& alpha, double scale,
                        double offset) {
    Kept kept{.x = input.contiguous(),
              .v = branch.contiguous(),
              .raw = raws.contiguous(),
              .norm_weight = contiguous(norm_weight),
              .bias = contiguous(bias),
              .alpha = contiguous(alpha),
              .statistics = {},
              .norm_weight_slot = {},
              .bias_slot = {},
              .alpha_slot = {},
              .gated = norm_weight.has_value(),
              .scaled = bias.has_value(),
              .scale = scale,
              .offset = offset};
    if (kept.gated) {
      kept.statistics = torch::empty({kept.x.numel() / kept.x.size(-1), 2}, kept.x.options());
      kept.norm_weight_slot = gradient_slot(kept.norm_weight);
    }
    if (kept.scaled) {
      kept.bias_slot = gradient_slot(kept.bias);
      kept.alpha_slot = gradient_slot(kept.alpha);
    }
    const auto out = torch::empty_like(kept.x);
    on_gpu(kept.x, kept.raw, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::gated_update_forward(cuda_stream, kept.in_kernels<T, A>(), values<T>(out),
                                    statistics_in<T>(kept.statistics));
    });
    save(context, kept);
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dout = gradients[0].contiguous();
    const auto dx = torch::empty_like(s.x), dv = torch::empty_like(s.v),
               draw = torch::empty_like(s.raw);
    const auto dweight = parameter_sum(s.norm_weight, s.norm_weight_slot),
               dbias = parameter_sum(s.bias, s.bias_slot),
               dalpha = parameter_sum(s.alpha, s.alpha_slot);
    on_gpu(s.x, s.raw, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      A* first = values<A>(draw);
      kernels::gated_update_backward<T, A>(cuda_stream, s.in_kernels<T, A>(),
                                           statistics_in<T>(s.statistics), values<T>(dout),
                                           {.x = values<T>(dx),
                                            .v = values<A>(dv),
                                            .gate = first,
                                            .beta = s.gated ? first + s.x.size(-1) : first,
                                            .weight = values<T>(dweight.sum),
                                            .bias = values<T>(dbias.sum),
                                            .alpha = values<T>(dalpha.sum)});
    });
    return {dx, dv, draw, dweight.gradient, dbias.gradient, dalpha.gradient, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor GatedUpdateSpec::beta(const Tensor& x) const {
  return scale * torch::tanh(linear_map(x, beta_weight, beta_bias)) + offset;
}

Tensor gated_update(const Tensor& x, const Tensor& v, const GatedUpdateSpec& spec) {
  const bool gated = spec.gate_weight.defined(), scaled = spec.beta_weight.defined();
  if (KernelChoice("gated_update", x)
          .need(on_gpu(x), "a GPU")
          .need(gated || scaled, "a gate or a β")
          .need(x.dim() == 3 && x.numel() > 0, "a state (B, T, D) with at least one value")
          .need(x.size(-1) <= kernels::kMostGatedValues, "rows of at most 2048 values")
          .runs()) {
    const auto weight = gated && scaled ? torch::cat({spec.gate_weight, spec.beta_weight})
                        : gated         ? spec.gate_weight
                                        : spec.beta_weight;
    const auto type = product_type(x.scalar_type());
    const auto raw = linear_map_to(x, weight, {}, type);
    return FusedGatedUpdate::apply(
        x, v.to(type), raw, gated ? maybe(spec.norm_weight) : OptionalTensor(),
        scaled ? maybe(spec.beta_bias) : OptionalTensor(),
        scaled ? maybe(spec.alpha) : OptionalTensor(), spec.scale, spec.offset);
  }
  auto y = v;
  if (gated) y = y * torch::sigmoid(layer_norm(linear_map(x, spec.gate_weight), spec.norm_weight));
  if (!scaled) return x + y;
  return x + spec.beta(x) * (y - spec.alpha * x);
}

}  // namespace geores
