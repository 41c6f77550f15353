#include "geores/kernels/routed/routed_passes.h"
#include "geores/ops/dense/products.h"
#include "geores/ops/gradients/packed_gradients.h"
#include "geores/ops/routed/forms/carried_form.h"
#include "geores/ops/routed/forms/gpu_routes.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;

struct RoutedShape {
  kernels::StreamShape streams;
  kernels::MixerShape mixers;
  int64_t tiles;

  RoutedShape(const Tensor& x, int64_t n, const Tensor& read_weight)
      : streams(split_shape(x, n)),
        mixers{.tokens = streams.tokens, .n = n},
        tiles(read_weight.numel() / streams.d) {}
};

// Outputs: the sublayer's input, the carried x, res, read, write. The incoming gradient of the
// carried x is unmixed (forms.h).
class FusedRoute : public torch::autograd::Function<FusedRoute> {
  struct Kept {
    Tensor x, normal, statistics, raw, weight, bias, res, read, read_statistics, norm_weight,
        read_weight;
    KeptParameters projections;
    Tensor norm_weight_slot, read_weight_slot, norm_bias_slot;
    bool layer, has_norm_bias;
    std::vector<int64_t> has_scale;
    int64_t n;
    Routing routing;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.normal), f(s.statistics), f(s.raw), f(s.weight), f(s.bias), f(s.res), f(s.read),
          f(s.read_statistics), f(s.norm_weight), f(s.read_weight), f(s.projections.values);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& norm_weights, const OptionalTensor& norm_biases,
                             const Tensor& read_weights, at::TensorList parameters,
                             const RoutedSpec& spec) {
    const auto x = input.contiguous(), read_weight = read_weights.contiguous();
    const auto norm_weight = contiguous(norm_weights), norm_bias = contiguous(norm_biases);
    const auto n = spec.streams, batch = x.size(0), length = x.size(1);
    const RoutedShape shape(x, n, read_weight);
    const auto has_scale = PackedProjections::scales_of(spec.projections);
    const auto [weight, bias] = PackedProjections(parameters, has_scale).packed();

    const auto normal = for_product_of(x, {shape.streams.tokens, x.size(2)});
    const auto statistics = torch::empty({batch, length, 2}, x.options());
    on_gpu(x, normal, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::norm_forward(
          cuda_stream, values<T>(x),
          state_norm<T>(spec.norm.layer, norm_weight, norm_bias, spec.norm.epsilon),
          values<A>(normal), statistics_in<T>(statistics), shape.streams.tokens, x.size(2));
    });
    const auto raw = multiply(normal, weight.t(), x.scalar_type());
    const auto res = torch::empty({batch, length, n, n}, x.options());
    const auto read = torch::empty({batch, length, n}, x.options());
    const auto write = torch::empty_like(read);
    const auto h = for_product_of(x, {batch, length, read_weight.numel()});
    const auto read_statistics = torch::empty_like(statistics);
    on_gpu(x, h, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      with_routes<T>(spec.routing, [&](const auto& routes) {
        kernels::routes_forward(cuda_stream, static_cast<const T*>(values<T>(raw)),
                                static_cast<const T*>(values<T>(bias)), routes, values<T>(res),
                                values<T>(read), values<T>(write), shape.mixers);
      });
      kernels::collect_norm_forward<T>(
          cuda_stream, values<T>(read), values<T>(x), {.weight = values<T>(read_weight)},
          shape.tiles, values<A>(h), statistics_in<T>(read_statistics), shape.streams);
    });

    save(context, Kept{.x = x,
                       .normal = normal,
                       .statistics = statistics,
                       .raw = raw,
                       .weight = weight,
                       .bias = bias,
                       .res = res,
                       .read = read,
                       .read_statistics = read_statistics,
                       .norm_weight = norm_weight,
                       .read_weight = read_weight,
                       .projections = KeptParameters::of(parameters),
                       .norm_weight_slot = gradient_slot(norm_weight),
                       .read_weight_slot = gradient_slot(read_weight),
                       .norm_bias_slot = gradient_slot(norm_bias),
                       .layer = spec.norm.layer,
                       .has_norm_bias = norm_bias.defined(),
                       .has_scale = has_scale,
                       .n = n,
                       .routing = spec.routing});
    context->mark_non_differentiable({res, read});
    return {h, input, res, read, write};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const RoutedShape shape(s.x, s.n, s.read_weight);
    const auto dh = gradients[0].contiguous(), dout = gradients[1].contiguous(),
               dwrite = gradients[4].contiguous();

    const auto dnorm_weight = parameter_sum(s.norm_weight, s.norm_weight_slot);
    const auto dread_weight = parameter_sum(s.read_weight, s.read_weight_slot);
    const auto dnorm_bias =
        parameter_sum(s.has_norm_bias ? s.norm_weight : Tensor(), s.norm_bias_slot);
    const auto dc = torch::empty({s.x.size(0), s.x.size(1), shape.streams.d}, s.x.options());
    const auto dread = torch::empty_like(s.read), dres = torch::empty_like(s.res);
    const auto draw = torch::empty(s.raw.sizes(), s.normal.options());
    const auto dbias = torch::empty_like(s.bias);
    on_gpu(s.x, dh, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::read_backward<T, A>(cuda_stream,
                                   {.read = values<T>(s.read),
                                    .x = values<T>(s.x),
                                    .norm = {.weight = values<T>(s.read_weight)},
                                    .statistics = statistics_in<T>(s.read_statistics),
                                    .dh = values<A>(dh),
                                    .dout = values<T>(dout),
                                    .dc = values<T>(dc),
                                    .dread = values<T>(dread),
                                    .dres = values<T>(dres),
                                    .dweight = values<T>(dread_weight.sum)},
                                   shape.tiles, shape.streams);
      with_routes<T>(s.routing, [&](const auto& routes) {
        const auto constant = [](const Tensor& tensor) {
          return static_cast<const T*>(values<T>(tensor));
        };
        kernels::routes_backward(cuda_stream, constant(s.raw), constant(s.bias), routes,
                                 constant(dres), constant(dread), constant(dwrite), values<A>(draw),
                                 values<T>(dbias), shape.mixers);
      });
    });
    const auto dnormal = multiply(draw, s.weight, s.normal.scalar_type());
    const auto dx = torch::empty_like(s.x);
    on_gpu(s.x, dnormal, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::routed_state_backward<T, A>(cuda_stream,
                                           {.res = values<T>(s.res),
                                            .read = values<T>(s.read),
                                            .x = values<T>(s.x),
                                            .norm = state_norm<T>(s.layer, s.norm_weight),
                                            .statistics = statistics_in<T>(s.statistics),
                                            .dnormal = values<A>(dnormal),
                                            .dout = values<T>(dout),
                                            .dc = values<T>(dc),
                                            .dx = values<T>(dx),
                                            .dweight = values<T>(dnorm_weight.sum),
                                            .dbias = values<T>(dnorm_bias.sum)},
                                           shape.streams);
    });
    tensor_list result = {dx, dnorm_weight.gradient, dnorm_bias.gradient, dread_weight.gradient};
    const auto& projections = s.projections.values;
    for (const auto& gradient :
         PackedProjections(projections, s.has_scale)
             .gradients(multiply(draw.t(), s.normal, projections[0].scalar_type()), dbias,
                        s.projections.slots))
      result.push_back(gradient);
    result.push_back(Tensor());
    return result;
  }
};

}  // namespace

std::unique_ptr<RoutedForm> passes_form(const RoutedInput& in, const RoutedSpec& spec) {
  if (!on_gpu(in.x) || has_tanh_routes(spec)) return nullptr;
  KernelChoice choice("routes", in.x, "passes over the state");
  if (!need_routes_on_gpu(choice, in, spec)
           .need(has_passes(spec.routing), "Cayley routes or guarded ones")
           .runs())
    return nullptr;
  const auto parameters = PackedProjections::parameters_of(spec.projections);
  const auto outputs = FusedRoute::apply(in.x, maybe(spec.norm.weight), maybe(spec.norm.bias),
                                         spec.read_norm.weight, at::TensorList(parameters), spec);
  return CarriedForm::of(outputs);
}

}  // namespace geores
