#include "geores/kernels/tokens/token_routes.h"

#include <string>

#include "geores/kernels/sizes.h"
#include "geores/ops/gradients/packed_gradients.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/routed/forms/carried_form.h"
#include "geores/ops/routed/forms/gpu_routes.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;
using Half = kernels::BFloat16;

// Outputs: the sublayer's input, the carried x, res, read, write. The incoming gradient of the
// carried x is unmixed (forms.h).
class FusedTokenRoute : public torch::autograd::Function<FusedTokenRoute> {
  struct Kept {
    Tensor x, z, statistics, raw, weight, res, read, read_statistics, norm_weight, norm_bias,
        read_weight;
    KeptParameters projections;
    Tensor norm_weight_slot, norm_bias_slot, read_weight_slot;
    Tensor bias_zeros;  // for the gradient of the packed bias; undefined: the pool is exhausted
    PackedGradient packed;
    bool layer;
    std::vector<int64_t> has_scale;
    Routing routing;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.z), f(s.statistics), f(s.raw), f(s.weight), f(s.res), f(s.read),
          f(s.read_statistics), f(s.norm_weight), f(s.norm_bias), f(s.read_weight),
          f(s.projections.values);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& norm_weights, const OptionalTensor& norm_biases,
                             const Tensor& read_weights, at::TensorList parameters,
                             const RoutedSpec& spec) {
    const auto x = input.contiguous(), read_weight = read_weights.contiguous();
    const auto norm_weight = contiguous(norm_weights), norm_bias = contiguous(norm_biases);
    const auto n = spec.streams, batch = x.size(0), length = x.size(1), tokens = batch * length;
    const auto has_scale = PackedProjections::scales_of(spec.projections);
    const auto packed =
        PackedProjections(parameters, has_scale).packed_behind(norm_weight, norm_bias);

    const auto z = for_product_of(x, {tokens, x.size(2)});
    const auto raw = torch::empty({tokens, packed.bias.numel()}, x.options());
    const auto statistics = torch::empty({batch, length, 2}, x.options());
    const auto read_statistics = torch::empty_like(statistics);
    const auto res = torch::empty({batch, length, n, n}, x.options());
    const auto read = torch::empty({batch, length, n}, x.options());
    const auto write = torch::empty_like(read);
    const auto h = for_product_of(x, {batch, length, read_weight.numel()});
    with_token_routes(spec.routing, [&](const auto& routes) {
      if constexpr (kernels::kHasCuda)
        kernels::token_route_forward(
            current_cuda_stream(),
            {.x = values<float>(x),
             .norm = state_norm<float>(spec.norm.layer, Tensor(), Tensor(), spec.norm.epsilon),
             .weights = {.forward = values<Half>(packed.forward),
                         .backward = nullptr,
                         .bias = values<float>(packed.bias)},
             .read_norm = {.weight = values<float>(read_weight)},
             .z = values<Half>(z),
             .statistics = statistics_in<float>(statistics),
             .raw = values<float>(raw),
             .res = values<float>(res),
             .read = values<float>(read),
             .write = values<float>(write),
             .h = values<Half>(h),
             .read_statistics = statistics_in<float>(read_statistics)},
            routes, tokens, x.size(2) / n);
    });

    save(context, Kept{.x = x,
                       .z = z,
                       .statistics = statistics,
                       .raw = raw,
                       .weight = packed.backward,
                       .res = res,
                       .read = read,
                       .read_statistics = read_statistics,
                       .norm_weight = norm_weight,
                       .norm_bias = norm_bias,
                       .read_weight = read_weight,
                       .projections = KeptParameters::of(parameters),
                       .norm_weight_slot = gradient_slot(norm_weight),
                       .norm_bias_slot = gradient_slot(norm_bias),
                       .read_weight_slot = gradient_slot(read_weight),
                       .bias_zeros = take_zeros(packed.bias.sizes(), x),
                       .packed = PackedGradient::of({raw.size(1), x.size(2)}, z.scalar_type(), x),
                       .layer = spec.norm.layer,
                       .has_scale = has_scale,
                       .routing = spec.routing});
    context->mark_non_differentiable({res, read});
    return {h, input, res, read, write};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dh = gradients[0].contiguous(), dout = gradients[1].contiguous(),
               dwrite = gradients[4].contiguous();
    const auto dbias =
        s.bias_zeros.defined() ? s.bias_zeros : torch::zeros({s.raw.size(1)}, s.x.options());
    const auto dnorm_weight = parameter_sum(s.norm_weight, s.norm_weight_slot);
    const auto dnorm_bias = parameter_sum(s.norm_bias, s.norm_bias_slot);
    const auto dread_weight = parameter_sum(s.read_weight, s.read_weight_slot);
    const ParameterSums dprojections(s.projections);
    const auto draw = torch::empty(s.raw.sizes(), s.z.options());
    const auto dx = torch::empty_like(s.x);
    with_token_routes(s.routing, [&](const auto& routes) {
      if constexpr (kernels::kHasCuda)
        kernels::token_route_backward(
            current_cuda_stream(),
            {.x = values<float>(s.x),
             .norm = state_norm<float>(s.layer, Tensor()),
             .statistics = statistics_in<float>(s.statistics),
             .weights = {.forward = nullptr, .backward = values<Half>(s.weight), .bias = nullptr},
             .raw = values<float>(s.raw),
             .res = values<float>(s.res),
             .read = values<float>(s.read),
             .read_norm = {.weight = values<float>(s.read_weight)},
             .read_statistics = statistics_in<float>(s.read_statistics),
             .dh = values<Half>(dh),
             .dwrite = values<float>(dwrite),
             .dout = values<float>(dout),
             .draw = values<Half>(draw),
             .dx = values<float>(dx),
             .dread_weight = values<float>(dread_weight.sum),
             .dbias = values<float>(dbias)},
            routes, s.raw.size(0), s.x.size(2) / s.read.size(2));
    });

    tensor_list result = {dx, dnorm_weight.gradient, dnorm_bias.gradient, dread_weight.gradient};
    result.insert(result.end(), dprojections.gradients.begin(), dprojections.gradients.end());
    const bool all_have_slots = dprojections.all_have_slots() && !dnorm_weight.gradient.defined() &&
                                !dnorm_bias.gradient.defined() && !dread_weight.gradient.defined();
    s.packed.add(draw, s.z, torch::kFloat32, all_have_slots,
                 [projections = PackedProjections(s.projections.values, s.has_scale), dbias,
                  norm_weight = s.norm_weight, norm_bias = s.norm_bias, sums = dprojections.sums,
                  dnorm_weight = dnorm_weight.sum, dnorm_bias = dnorm_bias.sum](
                     kernels::CudaStream cuda_stream, const Tensor& dweight) {
                   projections.unpacking_behind(norm_weight, norm_bias, dweight, dbias, sums,
                                                dnorm_weight, dnorm_bias)(cuda_stream);
                 });
    result.push_back(Tensor());
    return result;
  }
};

}  // namespace

std::unique_ptr<RoutedForm> token_form(const RoutedInput& in, const RoutedSpec& spec) {
  static const auto count = std::to_string(kernels::kRoutedStreams) + " streams",
                    width =
                        "streams of " + numbers_that(kernels::is_routed_stream_width) + " values";
  const auto& x = in.x;
  if (!on_gpu(x) || has_tanh_routes(spec)) return nullptr;
  int64_t raw = 0;
  for (const auto& projection : spec.projections) raw += projection.weight.size(0);
  bool same = false;
  with_token_routes(spec.routing, [&](const auto& routes) {
    same = raw == kernels::raw_values(routes) && spec.tiles == kernels::read_tiles(routes);
  });
  KernelChoice choice("routes", x, "one kernel each way");
  if (!need_routes_on_gpu(choice, in, spec)
           .need(spec.streams == kernels::kRoutedStreams, count.c_str())
           .need(x.scalar_type() == torch::kFloat32, "a float32 state")
           .need(product_type(torch::kFloat32) == torch::kBFloat16, "precision bf16")
           .need(same, "projections to the raw values of its routes, read as its kernel reads")
           .need(kernels::is_routed_stream_width(spec.width), width.c_str())
           .runs())
    return nullptr;
  const auto parameters = PackedProjections::parameters_of(spec.projections);
  return CarriedForm::of(FusedTokenRoute::apply(x, maybe(spec.norm.weight), maybe(spec.norm.bias),
                                                spec.read_norm.weight, at::TensorList(parameters),
                                                spec));
}

}  // namespace geores
