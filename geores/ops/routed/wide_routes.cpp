#include "geores/kernels/routed/wide_projection.h"

#include "geores/ops/dense/norm.h"
#include "geores/ops/gradients/packed_gradients.h"
#include "geores/ops/routed/wide_routes.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

kernels::WideProjectionShape projection_shape(const Tensor& x, int64_t count, bool normalized) {
  return {.rows = x.numel() / x.size(-1),
          .width = x.size(-1),
          .count = count,
          .normalized = normalized,
          .rounded = float32_products_in_tf32()};
}

// Outputs: the projections or, with n > 0, the three routes computed from them; then x.
class FusedWideProjection : public torch::autograd::Function<FusedWideProjection> {
  struct Kept {
    Tensor x, weight, bias, plain, inverse;
    KeptParameters parameters;
    std::vector<int64_t> has_scale;
    bool normalized;
    int64_t n;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.weight), f(s.bias), f(s.plain), f(s.inverse), f(s.parameters.values);
    }
  };

  // Like x with a last axis of this size, in the type of sums.
  static Tensor like(const Tensor& x, int64_t size, bool zeros = false) {
    auto sizes = x.sizes().vec();
    sizes.back() = size;
    return zeros ? torch::zeros(sizes, full_options(x)) : torch::empty(sizes, full_options(x));
  }

  template <class T>
  static kernels::SigmoidParts<T> parts_in(const tensor_list& parts, int64_t n) {
    using Value = std::remove_const_t<T>;
    if (n == 0) return {};
    return {values<Value>(parts[0]), values<Value>(parts[1]), values<Value>(parts[2]),
            static_cast<int>(n)};
  }

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             at::TensorList parameters, const std::vector<int64_t>& has_scale,
                             bool normalized, double epsilon, int64_t n, double offset) {
    const auto x = input.contiguous();
    const ExecutionScope exact(Precision::fp32);  // weights in their own type
    const auto [packed, bias] = PackedProjections(parameters, has_scale).packed();
    const auto weight = packed.contiguous();
    const auto shape = projection_shape(x, weight.size(0), normalized);
    const auto plain = torch::empty({shape.rows, shape.count}, full_options(x));
    tensor_list outputs;
    if (n == 0)
      outputs = {like(x, shape.count)};
    else
      outputs = {like(x, n), like(x, n), like(x, shape.count - 2 * n)};
    const auto inverse = torch::empty({shape.rows}, full_options(x));
    on_gpu_state(x, [&]<class T, class S>(T, S, kernels::CudaStream cuda_stream) {
      const auto partial =
          torch::empty({kernels::wide_projection_values<T>(shape)}, full_options(x));
      kernels::wide_projection_forward<T, S>(
          cuda_stream, values<S>(x), values<T>(weight), values<T>(bias), T(epsilon),
          values<T>(partial), values<T>(plain), n == 0 ? values<T>(outputs[0]) : nullptr,
          values<T>(inverse), shape, parts_in<T>(outputs, n), T(offset));
    });
    save(context, Kept{.x = x,
                       .weight = weight,
                       .bias = bias,
                       .plain = plain,
                       .inverse = inverse,
                       .parameters = KeptParameters::of(parameters),
                       .has_scale = has_scale,
                       .normalized = normalized,
                       .n = n});
    context->set_materialize_grads(
        false);  // avoids zeros of the state's size for an unused skip output
    outputs.push_back(input);
    return outputs;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto shape = projection_shape(s.x, s.weight.size(0), s.normalized);
    const auto skip = contiguous(gradients.back());
    const int64_t widths[] = {s.n == 0 ? shape.count : s.n, s.n, shape.count - 2 * s.n};
    tensor_list made;  // the projections, or the routes
    for (size_t i = 0; i + 1 < gradients.size(); ++i)
      made.push_back(gradients[i].defined() ? gradients[i].contiguous()
                                            : like(s.x, widths[i], /*zeros=*/true));
    const auto sums = torch::zeros({(shape.width + 1) * shape.count}, full_options(s.x));
    const auto dweight = sums.slice(0, 0, s.weight.numel()).view(s.weight.sizes()),
               dbias = sums.slice(0, s.weight.numel());
    const auto dx = torch::empty_like(s.x),
               factors = torch::empty({shape.rows, shape.count + 1}, full_options(s.x));
    on_gpu_state(s.x, [&]<class T, class S>(T, S, kernels::CudaStream cuda_stream) {
      kernels::wide_projection_backward<T, S>(cuda_stream,
                                              {.x = values<S>(s.x),
                                               .w = values<T>(s.weight),
                                               .plain = values<T>(s.plain),
                                               .inverse = values<T>(s.inverse),
                                               .draw = s.n == 0 ? values<T>(made[0]) : nullptr,
                                               .skip = values<S>(skip),
                                               .factors = values<T>(factors),
                                               .dx = values<S>(dx),
                                               .dw = values<T>(dweight),
                                               .dbias = values<T>(dbias),
                                               .bias = values<T>(s.bias),
                                               .parts = parts_in<const T>(made, s.n)},
                                              shape);
    });
    tensor_list result = {dx};
    for (const auto& gradient : PackedProjections(s.parameters.values, s.has_scale)
                                    .gradients(dweight, dbias, s.parameters.slots))
      result.push_back(gradient);
    result.resize(result.size() + 5);
    return result;
  }
};

// The result of FusedWideProjection; nullopt where it does not run.
tensor_list projected(const char* operation, const Tensor& x, bool normalized, double epsilon,
                      const std::vector<ProjectionWeights>& projections, int64_t n = 0,
                      double offset = 0) {
  if (!on_gpu(x)) return {};
  if (!KernelChoice::state(operation, x, "one pass over the state")
           .need(x.dim() >= 2 && x.numel() > 0, "at least one value")
           .need(!projections.empty() &&
                     projections[0].weight.scalar_type() == full_type(x.scalar_type()) &&
                     PackedProjections::fit(projections),
                 "few projections with bias, contiguous")
           .runs())
    return {};
  const auto parameters = PackedProjections::parameters_of(projections);
  return FusedWideProjection::apply(x, at::TensorList(parameters),
                                    PackedProjections::scales_of(projections), normalized, epsilon,
                                    n, offset);
}

std::optional<WideProjected> and_skip(const tensor_list& outputs) {
  if (outputs.empty()) return std::nullopt;
  return WideProjected{.projected = outputs[0], .skip = outputs[1]};
}

}  // namespace

std::optional<WideProjected> wide_projected(const Tensor& x, double epsilon,
                                            const std::vector<ProjectionWeights>& projections) {
  return and_skip(projected("wide_projected", x, true, rms_epsilon(epsilon), projections));
}

std::optional<WideSigmoidRoutes> wide_sigmoid_routes(
    const Tensor& x, double epsilon, const std::vector<ProjectionWeights>& projections, int64_t n,
    double offset) {
  const auto outputs =
      projected("wide_sigmoid_routes", x, true, rms_epsilon(epsilon), projections, n, offset);
  if (outputs.empty()) return std::nullopt;
  return WideSigmoidRoutes{.routes = {outputs[0], outputs[1], outputs[2]}, .skip = outputs[3]};
}

std::optional<WideProjected> wide_linear(const Tensor& x,
                                         const std::vector<ProjectionWeights>& projections) {
  return and_skip(projected("wide_linear", x, false, 0, projections));
}

}  // namespace geores
