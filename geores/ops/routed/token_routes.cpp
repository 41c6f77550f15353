#include "geores/kernels/routed/token_routes.h"

#include <algorithm>

#include "geores/ops/dense/products.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/routed/routed_parts.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

using namespace fused;
using Half = kernels::BFloat16;

// Outputs: what the sublayer reads, x, res, read, write. What comes back for x is the gradient of
// what write_routed() made: mixing it back is done here.
class FusedTokenRoute : public torch::autograd::Function<FusedTokenRoute> {
  static constexpr size_t kSaved = 16;  // besides places of gradients, and parameters

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& norm_weights, const OptionalTensor& norm_biases,
                             const Tensor& read_weights, at::TensorList parameters,
                             const RoutedSpec& spec) {
    const auto x = input.contiguous(), read_weight = read_weights.contiguous();
    const auto norm_weight = contiguous(norm_weights), norm_bias = contiguous(norm_biases);
    const auto n = spec.streams, batch = x.size(0), length = x.size(1), tokens = batch * length;
    const RoutingNumbers routing(spec);
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
    routing.with<float>([&](const auto& routes) {
      if constexpr (kernels::kHasCuda)
        kernels::token_route_forward(current_cuda_stream(),
                                     {.x = values<float>(x),
                                      .norm = state_norm<float>(spec.norm.layer, Tensor()),
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

    tensor_list saved = {x,
                         z,
                         statistics,
                         raw,
                         packed.backward,
                         res,
                         read,
                         read_statistics,
                         norm_weight,
                         norm_bias,
                         read_weight,
                         take_sum_room(packed.bias),
                         take_sum_room(torch::empty({raw.size(1), x.size(2)}, x.options())),
                         gradient_place(norm_weight),
                         gradient_place(norm_bias),
                         gradient_place(read_weight)};
    for (const auto& parameter : parameters) saved.push_back(gradient_place(parameter));
    saved.insert(saved.end(), parameters.begin(), parameters.end());
    context->save_for_backward(saved);
    keep(context, weight_gradients());
    context->saved_data["layer"] = spec.norm.layer;
    context->saved_data["scales"] = has_scale;
    routing.keep(context);
    context->mark_non_differentiable({res, read});
    return {h, input, res, read, write};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &z = saved[1], &statistics = saved[2], &raw = saved[3],
               &weight = saved[4], &res = saved[5], &read = saved[6], &read_statistics = saved[7],
               &norm_weight = saved[8], &norm_bias = saved[9], &read_weight = saved[10];
    const auto parameters = at::TensorList(saved).slice((saved.size() - kSaved) / 2 + kSaved);
    const auto dh = gradients[0].contiguous(), dout = gradients[1].contiguous(),
               dwrite = gradients[4].contiguous();
    const auto zeros = [&](const Tensor& taken, at::IntArrayRef shape) {
      return taken.defined() ? taken : torch::zeros(shape, x.options());
    };
    const auto dbias = zeros(saved[11], {raw.size(1)});
    const auto dweight = zeros(saved[12], {raw.size(1), x.size(2)});
    const auto dnorm_weight = parameter_sum(norm_weight, saved[13]);
    const auto dnorm_bias = parameter_sum(norm_bias, saved[14]);
    const auto dread_weight = parameter_sum(read_weight, saved[15]);
    tensor_list sums,
        result = {Tensor(), dnorm_weight.gradient, dnorm_bias.gradient, dread_weight.gradient};
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto [sum, gradient] = parameter_sum(parameters[i], saved[kSaved + i]);
      sums.push_back(sum);
      result.push_back(gradient);
    }
    const auto draw = torch::empty(raw.sizes(), z.options());
    const auto dx = torch::empty_like(x);
    RoutingNumbers(context).with<float>([&](const auto& routes) {
      if constexpr (kernels::kHasCuda)
        kernels::token_route_backward(
            current_cuda_stream(),
            {.x = values<float>(x),
             .norm = state_norm<float>(context->saved_data["layer"].toBool(), Tensor()),
             .statistics = statistics_in<float>(statistics),
             .weights = {.forward = nullptr, .backward = values<Half>(weight), .bias = nullptr},
             .raw = values<float>(raw),
             .res = values<float>(res),
             .read = values<float>(read),
             .read_norm = {.weight = values<float>(read_weight)},
             .read_statistics = statistics_in<float>(read_statistics),
             .dh = values<Half>(dh),
             .dwrite = values<float>(dwrite),
             .dout = values<float>(dout),
             .draw = values<Half>(draw),
             .dx = values<float>(dx),
             .dread_weight = values<float>(dread_weight.sum),
             .dbias = values<float>(dbias)},
            routes, raw.size(0), x.size(2) / read.size(2));
    });
    result[0] = dx;

    // What is left is the parameters', and nobody waits for it.
    const auto unpack = PackedProjections(parameters, context->saved_data["scales"].toIntVector())
                            .unpacking_behind(norm_weight, norm_bias, dweight, dbias, sums,
                                              dnorm_weight.sum, dnorm_bias.sum);
    // Only where autograd gets none of them: it would not wait.
    const bool all_placed = std::none_of(result.begin() + 1, result.end(),
                                         [](const Tensor& gradient) { return gradient.defined(); });
    if (auto* taker = kept_in(context); taker && all_placed && WeightGradients::fit(draw, z)) {
      taker->add(draw, z, dweight);
      taker->then(unpack, sums);
    } else {
      dweight.add_(multiply(draw.t(), z, torch::kFloat32));
      if constexpr (kernels::kHasCuda) unpack(current_cuda_stream());
    }
    result.push_back(Tensor());
    return result;
  }
};

bool fits_token_kernels(const Tensor& x, const RoutedSpec& spec) {
  if (spec.streams != kernels::kRoutedStreams || x.scalar_type() != torch::kFloat32 ||
      product_type(torch::kFloat32) != torch::kBFloat16)
    return false;
  const auto d = x.size(2) / spec.streams;
  bool same = false;
  RoutingNumbers(spec).with<float>([&](const auto& routes) {
    int64_t raw = 0;
    for (const auto& projection : spec.projections) raw += projection.weight.size(0);
    same = raw == kernels::raw_values(routes) &&
           spec.read_weight.numel() == kernels::read_tiles(routes) * d;
  });
  return same && kernels::is_routed_stream_width(d);
}

}  // namespace

std::optional<Routed> route_by_token(const Tensor& x, const RoutedSpec& spec) {
  if (!fits_token_kernels(x, spec)) return std::nullopt;
  const auto parameters = PackedProjections::parameters_of(spec.projections);
  const auto outputs = FusedTokenRoute::apply(x, maybe(spec.norm.weight), maybe(spec.norm.bias),
                                              spec.read_weight, at::TensorList(parameters), spec);
  return Routed{.normalized = outputs[0],
                .state = split_streams(outputs[1], spec.streams),
                .routes = {.res = outputs[2], .read = outputs[3], .write = outputs[4]}};
}

}  // namespace geores
