#include "geores/kernels/tokens/tanh_token_routes.h"

#include <string>

#include "geores/kernels/sizes.h"
#include "geores/ops/gradients/packed_gradients.h"
#include "geores/ops/routed/forms/carried_form.h"
#include "geores/ops/routed/forms/gpu_routes.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;
using Half = kernels::BFloat16;

// Parameters: the projections' weights (pre, res, post), then those of the routes in the order of
// TanhRoutes.
constexpr size_t kProjections = 3;

kernels::StreamProjections<float> projections_in(const std::vector<Tensor>& p) {
  return {values<float>(p[0]), values<float>(p[1]), values<float>(p[2])};
}

kernels::TanhRoutes<float> routes_in(const std::vector<Tensor>& p) {
  const auto at = [&](size_t i) { return values<float>(p[kProjections + i]); };
  return {.scale = at(0), .post_scale = at(1), .pre = at(2), .res = at(3), .post = at(4)};
}

kernels::TanhTokenRoutes kernel_routes(const std::vector<Tensor>& parameters,
                                       const kernels::TanhRoutes<float>& gradients) {
  const auto p = routes_in(parameters);
  return {
      {.scale = p.scale, .post_scale = p.post_scale, .pre = p.pre, .res = p.res, .post = p.post},
      gradients};
}

// Outputs: the sublayer's input, the carried x, res, read, write. The incoming gradient of the
// carried x is unmixed (forms.h).
class FusedTanhTokenRoute : public torch::autograd::Function<FusedTanhTokenRoute> {
  struct Kept {
    Tensor x, z, statistics, raw, weight, res, read, read_statistics, read_weight;
    KeptParameters parameters;
    Tensor read_weight_slot;
    PackedGradient packed;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.z), f(s.statistics), f(s.raw), f(s.weight), f(s.res), f(s.read),
          f(s.read_statistics), f(s.read_weight), f(s.parameters.values);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const Tensor& read_weights, at::TensorList parameters,
                             double epsilon) {
    const auto x = input.contiguous(), read_weight = read_weights.contiguous();
    const auto n = int64_t{kernels::kRoutedStreams}, batch = x.size(0), length = x.size(1),
               tokens = batch * length, width = x.size(2), d = width / n;
    const auto raw_count = kernels::raw_values(kernels::TanhTokenRoutes());
    const auto half = x.options().dtype(torch::kBFloat16);
    const auto packed = torch::empty({raw_count * width}, half),
               packed_back = torch::empty({kernels::padded_raw(raw_count) * width}, half),
               bias = torch::empty({raw_count}, x.options());
    const auto z = torch::empty({tokens, width}, half), h = torch::empty({batch, length, d}, half);
    const auto raw = torch::empty({tokens, raw_count}, x.options()),
               statistics = torch::empty({tokens, kernels::kTanhStatistics, 2}, x.options()),
               read_statistics = torch::empty({tokens, 2}, x.options()),
               res = torch::empty({batch, length, n, n}, x.options()),
               read = torch::empty({batch, length, n}, x.options()),
               write = torch::empty_like(read);
    if constexpr (kernels::kHasCuda) {
      const auto stream = current_cuda_stream();
      const kernels::RouteWeights weights{.forward = values<Half>(packed),
                                          .backward = values<Half>(packed_back),
                                          .bias = values<float>(bias)};
      const auto projections = projections_in(parameters.vec());
      kernels::pack_stream_weights(stream, {projections.pre, projections.res, projections.post},
                                   weights, d);
      kernels::token_route_forward(
          stream,
          {.x = values<float>(x),
           .norm = state_norm<float>(/*layer=*/false, Tensor(), Tensor(), epsilon),
           .weights = weights,
           .read_norm = {.weight = values<float>(read_weight)},
           .z = values<Half>(z),
           .statistics = statistics_in<float>(statistics),
           .raw = values<float>(raw),
           .res = values<float>(res),
           .read = values<float>(read),
           .write = values<float>(write),
           .h = values<Half>(h),
           .read_statistics = statistics_in<float>(read_statistics)},
          kernel_routes(parameters.vec(), {}), tokens, d);
    }
    save(context, Kept{.x = x,
                       .z = z,
                       .statistics = statistics,
                       .raw = raw,
                       .weight = packed_back,
                       .res = res,
                       .read = read,
                       .read_statistics = read_statistics,
                       .read_weight = read_weight,
                       .parameters = KeptParameters::of(parameters),
                       .read_weight_slot = gradient_slot(read_weight),
                       .packed = PackedGradient::of({raw_count, width}, z.scalar_type(), x)});
    context->mark_non_differentiable({res, read});
    return {h, input, res, read, write};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dh = gradients[0].contiguous(), dout = gradients[1].contiguous(),
               dwrite = gradients[4].contiguous();
    const auto dread_weight = parameter_sum(s.read_weight, s.read_weight_slot);
    const ParameterSums dparameters(s.parameters);
    const auto draw = torch::empty(s.raw.sizes(), s.z.options());
    const auto dx = torch::empty_like(s.x);
    const auto d = s.read_weight.numel();
    if constexpr (kernels::kHasCuda)
      kernels::token_route_backward(
          current_cuda_stream(),
          {.x = values<float>(s.x),
           .norm = state_norm<float>(/*layer=*/false, Tensor()),
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
           .dbias = nullptr},
          kernel_routes(s.parameters.values, routes_in(dparameters.sums)), s.raw.size(0), d);
    s.packed.add(draw, s.z, torch::kFloat32, dparameters.all_have_slots(),
                 [sums = dparameters.sums, d]([[maybe_unused]] kernels::CudaStream cuda_stream,
                                              [[maybe_unused]] const Tensor& dweight) {
                   if constexpr (kernels::kHasCuda)
                     kernels::unpack_stream_gradients(cuda_stream, values<float>(dweight),
                                                      projections_in(sums), d);
                 });
    tensor_list result = {dx, dread_weight.gradient};
    result.insert(result.end(), dparameters.gradients.begin(), dparameters.gradients.end());
    result.push_back(Tensor());
    return result;
  }
};

}  // namespace

std::unique_ptr<RoutedForm> tanh_token_form(const RoutedInput& in, const RoutedSpec& spec) {
  static const auto count = std::to_string(kernels::kRoutedStreams) + " streams",
                    width =
                        "streams of " + numbers_that(kernels::is_routed_stream_width) + " values";
  const auto* tanh = std::get_if<TanhRouting>(&spec.routing);
  if (!on_gpu(in.x) || tanh == nullptr) return nullptr;
  std::vector<Tensor> parameters;
  for (const auto& projection : spec.projections) parameters.push_back(projection.weight);
  const auto& p = tanh->routes;
  parameters.insert(parameters.end(), {p.scale, p.post_scale, p.pre, p.res, p.post});
  bool contiguous_floats = true;
  for (const auto& parameter : parameters)
    contiguous_floats = contiguous_floats && parameter.is_contiguous() &&
                        parameter.scalar_type() == torch::kFloat32;
  if (!KernelChoice("routes", in.x, "one kernel each way")
           .need(in.x.numel() > 0, "at least one value")
           .need(spec.streams == kernels::kRoutedStreams, count.c_str())
           .need(in.x.scalar_type() == torch::kFloat32, "a float32 state")
           .need(product_type(torch::kFloat32) == torch::kBFloat16, "precision bf16")
           .need(kernels::is_routed_stream_width(spec.width), width.c_str())
           .need(contiguous_floats, "contiguous parameters in float32")
           .need(spec.read_norm.kind == ReadNormSpec::Kind::layer, "LayerNorm before the sublayer")
           .runs())
    return nullptr;
  return CarriedForm::of(FusedTanhTokenRoute::apply(in.x, spec.read_norm.weight,
                                                    at::TensorList(parameters), spec.norm.epsilon));
}

}  // namespace geores
