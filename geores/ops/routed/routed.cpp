#include "geores/ops/routed/routed.h"

#include "geores/kernels/routed/routed_passes.h"
#include "geores/ops/dense/products.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/routed/routed_parts.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

using namespace fused;

struct RoutedShape {
  kernels::StreamShape streams;
  kernels::MixerShape mixers;
  int64_t tiles;

  RoutedShape(const Tensor& x, int64_t n, const Tensor& read_weight)
      : streams{.tokens = x.size(0) * x.size(1), .n = n, .d = x.size(2) / n},
        mixers{.tokens = streams.tokens, .n = n},
        tiles(read_weight.numel() / streams.d) {}
};

// Outputs: what the sublayer reads, x, res, read, write. What comes back for x is the gradient of
// what FusedWriteRouted made: mixing it back is done here.
class FusedRoute : public torch::autograd::Function<FusedRoute> {
 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& norm_weights, const OptionalTensor& norm_biases,
                             const Tensor& read_weights, at::TensorList parameters,
                             const RoutedSpec& spec) {
    const auto x = input.contiguous(), read_weight = read_weights.contiguous();
    const auto norm_weight = contiguous(norm_weights), norm_bias = contiguous(norm_biases);
    const auto n = spec.streams, batch = x.size(0), length = x.size(1);
    const RoutedShape shape(x, n, read_weight);
    const RoutingNumbers routing(spec);
    const auto has_scale = PackedProjections::scales_of(spec.projections);
    const auto [weight, bias] = PackedProjections(parameters, has_scale).packed();

    const auto normal = for_product_of(x, {shape.streams.tokens, x.size(2)});
    const auto statistics = torch::empty({batch, length, 2}, x.options());
    on_gpu(x, normal, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::norm_forward(
          stream, values<T>(x), state_norm<T>(spec.norm.layer, norm_weight, norm_bias),
          values<A>(normal), statistics_in<T>(statistics), shape.streams.tokens, x.size(2));
    });
    const auto raw = multiply(normal, weight.t(), x.scalar_type());
    const auto res = torch::empty({batch, length, n, n}, x.options());
    const auto read = torch::empty({batch, length, n}, x.options());
    const auto write = torch::empty_like(read);
    const auto h = for_product_of(x, {batch, length, read_weight.numel()});
    const auto read_statistics = torch::empty_like(statistics);
    on_gpu(x, h, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      routing.with<T>([&](const auto& routes) {
        kernels::routes_forward(stream, static_cast<const T*>(values<T>(raw)),
                                static_cast<const T*>(values<T>(bias)), routes, values<T>(res),
                                values<T>(read), values<T>(write), shape.mixers);
      });
      kernels::collect_norm_forward<T>(
          stream, values<T>(read), values<T>(x), {.weight = values<T>(read_weight)}, shape.tiles,
          values<A>(h), statistics_in<T>(read_statistics), shape.streams);
    });

    tensor_list saved = {x,
                         normal,
                         statistics,
                         raw,
                         weight,
                         bias,
                         res,
                         read,
                         read_statistics,
                         norm_weight,
                         read_weight,
                         gradient_place(norm_weight),
                         gradient_place(read_weight),
                         gradient_place(norm_bias)};
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    context->save_for_backward(saved);
    context->saved_data["layer"] = spec.norm.layer;
    context->saved_data["norm_bias"] = norm_bias.defined();
    context->saved_data["scales"] = has_scale;
    context->saved_data["n"] = n;
    routing.keep(context);
    context->mark_non_differentiable({res, read});
    return {h, input, res, read, write};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &normal = saved[1], &statistics = saved[2], &raw = saved[3],
               &weight = saved[4], &bias = saved[5], &res = saved[6], &read = saved[7],
               &read_statistics = saved[8], &norm_weight = saved[9], &read_weight = saved[10];
    const auto parameters = at::TensorList(saved).slice(14);
    const auto n = context->saved_data["n"].toInt();
    const auto layer = context->saved_data["layer"].toBool();
    const auto has_bias = context->saved_data["norm_bias"].toBool();
    const RoutedShape shape(x, n, read_weight);
    const auto dh = gradients[0].contiguous(), dout = gradients[1].contiguous(),
               dwrite = gradients[4].contiguous();

    const auto dnorm_weight = parameter_sum(norm_weight, saved[11]);
    const auto dread_weight = parameter_sum(read_weight, saved[12]);
    const auto dnorm_bias = parameter_sum(has_bias ? norm_weight : Tensor(), saved[13]);
    const auto dc = torch::empty({x.size(0), x.size(1), shape.streams.d}, x.options());
    const auto dread = torch::empty_like(read), dres = torch::empty_like(res);
    const auto draw = torch::empty(raw.sizes(), normal.options());
    const auto dbias = torch::empty_like(bias);
    on_gpu(x, dh, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::read_backward<T, A>(stream,
                                   {.read = values<T>(read),
                                    .x = values<T>(x),
                                    .norm = {.weight = values<T>(read_weight)},
                                    .statistics = statistics_in<T>(read_statistics),
                                    .dh = values<A>(dh),
                                    .dout = values<T>(dout),
                                    .dc = values<T>(dc),
                                    .dread = values<T>(dread),
                                    .dres = values<T>(dres),
                                    .dweight = values<T>(dread_weight.sum)},
                                   shape.tiles, shape.streams);
      RoutingNumbers(context).with<T>([&](const auto& routes) {
        const auto constant = [](const Tensor& tensor) {
          return static_cast<const T*>(values<T>(tensor));
        };
        kernels::routes_backward(stream, constant(raw), constant(bias), routes, constant(dres),
                                 constant(dread), constant(dwrite), values<A>(draw),
                                 values<T>(dbias), shape.mixers);
      });
    });
    const auto dnormal = multiply(draw, weight, normal.scalar_type());
    const auto dx = torch::empty_like(x);
    on_gpu(x, dnormal, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::routed_state_backward<T, A>(stream,
                                           {.res = values<T>(res),
                                            .read = values<T>(read),
                                            .x = values<T>(x),
                                            .norm = state_norm<T>(layer, norm_weight),
                                            .statistics = statistics_in<T>(statistics),
                                            .dnormal = values<A>(dnormal),
                                            .dout = values<T>(dout),
                                            .dc = values<T>(dc),
                                            .dx = values<T>(dx),
                                            .dweight = values<T>(dnorm_weight.sum),
                                            .dbias = values<T>(dnorm_bias.sum)},
                                           shape.streams);
    });
    tensor_list result = {dx, dnorm_weight.gradient, dnorm_bias.gradient, dread_weight.gradient};
    for (const auto& gradient :
         PackedProjections(parameters, context->saved_data["scales"].toIntVector())
             .gradients(multiply(draw.t(), normal, parameters[0].scalar_type()), dbias))
      result.push_back(gradient);
    result.push_back(Tensor());
    return result;
  }
};

class FusedWriteRouted : public torch::autograd::Function<FusedWriteRouted> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& res, const Tensor& input,
                        const Tensor& write, const Tensor& branches) {
    const auto x = input.contiguous(), branch = branches.contiguous();
    auto out = torch::empty_like(x);
    on(x, branch, [&]<class T, class A>(T, A, auto... place) {
      kernels::mix_write_forward(place..., values<T>(res), values<T>(x), values<T>(write),
                                 values<A>(branch), kind(branch), values<T>(out), shape(x));
    });
    context->save_for_backward({write, branch});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &write = saved[0], &branch = saved[1];
    const auto dout = gradients[0].contiguous();
    const auto dwrite = torch::empty_like(write), dbranch = torch::empty_like(branch);
    on(dout, branch, [&]<class T, class A>(T, A, auto... place) {
      kernels::write_backward(place..., static_cast<const T*>(values<T>(write)),
                              static_cast<const A*>(values<A>(branch)), kind(branch),
                              static_cast<const T*>(values<T>(dout)), values<T>(dwrite),
                              values<A>(dbranch), shape(dout));
    });
    return {Tensor(), dout, dwrite, dbranch};
  }

 private:
  static kernels::StreamShape shape(const Tensor& x) {
    return {.tokens = x.size(0) * x.size(1), .n = x.size(2), .d = x.size(3)};
  }
  static kernels::Branch kind(const Tensor& branch) {
    return branch.dim() == 3 ? kernels::Branch::shared : kernels::Branch::per_stream;
  }
};

bool fits_gpu(const Tensor& x, const RoutedSpec& spec) {
  const auto n = spec.streams;
  if (!runs_cuda_kernel(x) || x.dim() != 3 || x.numel() == 0 || x.size(2) % n != 0) return false;
  if (!kernels::is_device_stream_count(n) || x.size(2) / n > kernels::kDeviceStreamWidth ||
      x.size(2) > kernels::kDeviceRow || !PackedProjections::fit(spec.projections))
    return false;
  if (const auto* cayley = std::get_if<CayleyRouting>(&spec.routing)) return !cayley->exact;
  return std::get<GuardedRouting>(spec.routing).iterations <= kernels::kMostGuardedIterations;
}

}  // namespace

std::optional<Routed> route_on_gpu(const Tensor& x, const RoutedSpec& spec) {
  if (!fits_gpu(x, spec)) return std::nullopt;
  if (auto routed = route_by_token(x, spec)) return routed;
  const auto parameters = PackedProjections::parameters_of(spec.projections);
  const auto outputs = FusedRoute::apply(x, maybe(spec.norm.weight), maybe(spec.norm.bias),
                                         spec.read_weight, at::TensorList(parameters), spec);
  return Routed{.normalized = outputs[0],
                .state = split_streams(outputs[1], spec.streams),
                .routes = {.res = outputs[2], .read = outputs[3], .write = outputs[4]}};
}

std::optional<Routed> route_fused(const Tensor& x, const RoutedSpec& spec) {
  return x.is_cuda() ? route_on_gpu(x, spec) : route_on_cpu(x, spec);
}

Tensor write_routed(const Routed& routed, const Tensor& y) {
  return FusedWriteRouted::apply(routed.routes.res, routed.state, routed.routes.write, y);
}

}  // namespace geores
