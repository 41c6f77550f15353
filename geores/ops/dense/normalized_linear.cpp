#include "geores/ops/dense/normalized_linear.h"

#include "geores/kernels/dense/normalized_linear.h"
#include "geores/ops/dense/linear.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

// Outputs: the projection, and x. The norm has no weight and bias.
class FusedNormalizedLinear : public torch::autograd::Function<FusedNormalizedLinear> {
  struct Kept {
    Tensor x, w, statistics;
    bool layer, has_bias, half;
    double epsilon;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.w), f(s.statistics);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input, const Tensor& weights,
                             const OptionalTensor& biases, bool layer, double epsilon) {
    const auto x = input.contiguous(), w = weights.contiguous(), bias = contiguous(biases);
    auto shape = x.sizes().vec();
    shape.back() = w.size(0);
    const auto y = torch::empty(shape, x.options());
    const auto statistics = torch::empty({linear_shape(x, w).rows, 2}, x.options());
    const bool half = products_in_bfloat16();
    for_product_types(x, half, [&]<class T, class P>(T, P) {
      kernels::normalized_linear_forward<T, P>(values<T>(x), norm<T>(layer, epsilon), values<T>(w),
                                               values<T>(bias), values<T>(y),
                                               statistics_in<T>(statistics), linear_shape(x, w));
    });
    save(context, Kept{.x = x,
                       .w = w,
                       .statistics = statistics,
                       .layer = layer,
                       .has_bias = bias.defined(),
                       .half = half,
                       .epsilon = epsilon});
    context->set_materialize_grads(
        false);  // avoids zeros of the state's size for an unused skip output
    return {y, input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto skip = contiguous(gradients[1]);
    if (!gradients[0].defined()) return {skip, Tensor(), Tensor(), Tensor(), Tensor()};
    const auto dy = gradients[0].contiguous();
    const auto dx = torch::empty_like(s.x), dw = torch::zeros_like(s.w);
    const auto dbias = s.has_bias ? torch::zeros({s.w.size(0)}, s.w.options()) : Tensor();
    for_product_types(s.x, s.half, [&]<class T, class P>(T, P) {
      kernels::normalized_linear_backward<T, P>(
          values<T>(s.x), norm<T>(s.layer, s.epsilon), statistics_in<T>(s.statistics),
          values<T>(s.w), values<T>(dy), values<T>(skip),
          {.x = values<T>(dx), .w = values<T>(dw), .bias = values<T>(dbias)},
          linear_shape(s.x, s.w));
    });
    return {dx, dw, dbias, Tensor(), Tensor()};
  }

 private:
  static kernels::LinearShape linear_shape(const Tensor& x, const Tensor& w) {
    return {.rows = x.numel() / w.size(1), .in = w.size(1), .out = w.size(0)};
  }

  template <class T>
  static kernels::Norm<T> norm(bool layer, double epsilon) {
    return {.kind = layer ? kernels::NormKind::layer : kernels::NormKind::rms,
            .eps = T(layer ? 1e-5 : rms_epsilon(epsilon))};
  }
};

}  // namespace

Tensor normalized(const Tensor& x, const NormSpec& norm) {
  if (norm.layer) return layer_norm(x, norm.weight, norm.bias);
  const auto plain = rms_normalize(x, norm.epsilon);
  return norm.weight.defined() ? plain * norm.weight : plain;
}

LinearMap folded_into(const NormSpec& norm, const Tensor& weight, const Tensor& bias) {
  const auto shift = norm.bias.defined() ? weight.matmul(norm.bias) : Tensor();
  return {.weight = norm.weight.defined() ? weight * norm.weight : weight,
          .bias = shift.defined() && bias.defined() ? bias + shift
                  : shift.defined()                 ? shift
                                                    : bias};
}

ProjectionAndSkip normalized_linear(const State& state, const NormSpec& norm, const Tensor& weight,
                                    const Tensor& bias) {
  if (KernelChoice("normalized_linear", state.x, "norm, then product")
          .need(on_gpu(state.x), "a GPU")
          .runs()) {
    const auto [h, skip] = norm.layer ? layer_norm_and_skip(state, norm.weight, norm.bias)
                                      : rms_norm_and_skip(state.total(), norm.weight, norm.epsilon);
    return {linear_map_to(h, weight, bias, skip.scalar_type()), skip};
  }
  const auto x = state.total();
  if (!KernelChoice("normalized_linear", x, "normalized in blocks of rows")
           .need(!on_gpu(x), "a CPU")
           .runs())
    return {linear_map(normalized(x, norm), weight, bias), x};
  const auto folded = folded_into(norm, weight, bias);
  const auto outputs =
      FusedNormalizedLinear::apply(x, folded.weight, maybe(folded.bias), norm.layer, norm.epsilon);
  return {outputs[0], outputs[1]};
}

}  // namespace geores
