#include "geores/ops/normalized_linear.h"

#include "geores/kernels/normalized_linear.h"
#include "geores/ops/fused.h"
#include "geores/ops/linear.h"
#include "geores/ops/norm.h"

namespace geores {
namespace {

using namespace fused;

// Outputs: the projection, and x.
class FusedNormalizedLinear : public torch::autograd::Function<FusedNormalizedLinear> {
 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input, const Tensor& weights,
                             const OptionalTensor& biases, const OptionalTensor& norm_weights,
                             const OptionalTensor& norm_biases, bool layer) {
    const auto x = input.contiguous(), w = weights.contiguous(), bias = contiguous(biases);
    const auto norm_weight = contiguous(norm_weights), norm_bias = contiguous(norm_biases);
    auto shape = x.sizes().vec();
    shape.back() = w.size(0);
    const auto y = torch::empty(shape, x.options());
    const auto statistics = torch::empty({linear_shape(x, w).rows, 2}, x.options());
    for_type_of(x, [&]<class T>(T) {
      kernels::normalized_linear_forward<T>(values<T>(x), norm<T>(layer, norm_weight, norm_bias),
                                            values<T>(w), values<T>(bias), values<T>(y),
                                            statistics_in<T>(statistics), linear_shape(x, w));
    });
    context->save_for_backward({x, w, norm_weight, norm_bias, statistics});
    context->saved_data["layer"] = layer;
    context->saved_data["bias"] = bias.defined();
    return {y, input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &w = saved[1], &norm_weight = saved[2], &norm_bias = saved[3];
    const auto layer = context->saved_data["layer"].toBool();
    const auto dy = gradients[0].contiguous(), skip = contiguous(gradients[1]);
    const auto like = [](const Tensor& tensor) {
      return tensor.defined() ? torch::zeros_like(tensor) : Tensor();
    };
    const auto dx = torch::empty_like(x), dw = torch::zeros_like(w);
    const auto dbias =
        context->saved_data["bias"].toBool() ? torch::zeros({w.size(0)}, w.options()) : Tensor();
    const auto dnorm_weight = like(norm_weight), dnorm_bias = like(norm_bias);
    for_type_of(x, [&]<class T>(T) {
      kernels::normalized_linear_backward<T>(values<T>(x), norm<T>(layer, norm_weight, norm_bias),
                                             statistics_in<T>(saved[4]), values<T>(w),
                                             values<T>(dy), values<T>(skip),
                                             {.x = values<T>(dx),
                                              .norm_weight = values<T>(dnorm_weight),
                                              .norm_bias = values<T>(dnorm_bias),
                                              .w = values<T>(dw),
                                              .bias = values<T>(dbias)},
                                             linear_shape(x, w));
    });
    return {dx, dw, dbias, dnorm_weight, dnorm_bias, Tensor()};
  }

 private:
  static kernels::LinearShape linear_shape(const Tensor& x, const Tensor& w) {
    return {.rows = x.numel() / w.size(1), .in = w.size(1), .out = w.size(0)};
  }

  template <class T>
  static kernels::Norm<T> norm(bool layer, const Tensor& weight, const Tensor& bias) {
    return {.kind = layer ? kernels::NormKind::layer : kernels::NormKind::rms,
            .weight = values<T>(weight),
            .bias = values<T>(bias),
            .eps = T(layer ? 1e-5 : 1e-6)};
  }
};

}  // namespace

Tensor normalized(const Tensor& x, const NormSpec& norm) {
  if (norm.layer) return layer_norm(x, norm.weight, norm.bias);
  const auto plain = rms_normalize(x);
  return norm.weight.defined() ? plain * norm.weight : plain;
}

ProjectionAndSkip normalized_linear(const Tensor& x, const NormSpec& norm, const Tensor& weight,
                                    const Tensor& bias) {
  if (runs_on_gpu(x)) {
    const auto [h, skip] = norm.layer ? layer_norm_and_skip(x, norm.weight, norm.bias)
                                      : rms_norm_and_skip(x, norm.weight);
    return {linear_map_to(h, weight, bias, x.scalar_type()), skip};
  }
  if (!runs_fused(x)) return {linear_map(normalized(x, norm), weight, bias), x};
  const auto outputs = FusedNormalizedLinear::apply(x, weight, maybe(bias), maybe(norm.weight),
                                                    maybe(norm.bias), norm.layer);
  return {outputs[0], outputs[1]};
}

}  // namespace geores
