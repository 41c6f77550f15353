#include "geores/kernels/routed/routed_streams.h"
#include "geores/kernels/sizes.h"
#include "geores/ops/routed/routed.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/streams/streams.h"

namespace geores {
namespace {

using namespace fused;

// What FusedRead keeps. The norm of x has neither weight nor bias.
struct Kept {
  Tensor x, weight, bias, read_weight;  // weight (differences, n·d), bias may be undefined
  Tensor entries, statistics, collected_statistics, res, read;

  Kept(const tensor_list& saved)
      : x(saved[0]),
        weight(saved[1]),
        bias(saved[2]),
        read_weight(saved[3]),
        entries(saved[4]),
        statistics(saved[5]),
        collected_statistics(saved[6]),
        res(saved[7]),
        read(saved[8]) {}

  template <class T>
  kernels::RouteProjection<T> projection(AutogradContext* context) const {
    return {.norm = {},
            .w = values<T>(weight),
            .bias = values<T>(bias),
            .routes = {T(context->saved_data["temperature"].toDouble()),
                       T(context->saved_data["alpha"].toDouble()),
                       static_cast<int>(context->saved_data["steps"].toInt())},
            .read_norm = {.weight = values<T>(read_weight)}};
  }

  template <class T>
  kernels::RoutedStreams<T> routed(const Tensor& write, const Tensor& h) const {
    return {.entries = values<T>(entries),
            .statistics = statistics_in<T>(statistics),
            .res = values<T>(res),
            .read = values<T>(read),
            .write = values<T>(write),
            .h = values<T>(h),
            .collected_statistics = statistics_in<T>(collected_statistics)};
  }

  kernels::StreamShape shape() const {
    const auto n = read.size(2);
    return {.tokens = x.size(0) * x.size(1), .n = n, .d = x.size(2) / n};
  }
};

// Outputs: what F reads, write, x to be carried, and the values of res and read.
class FusedRead : public torch::autograd::Function<FusedRead> {
 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                             const OptionalTensor& bias, const Tensor& read_weight, int64_t n,
                             double temperature, double alpha, int64_t steps) {
    const auto room = [&](std::vector<int64_t> token) {
      token.insert(token.begin(), {input.size(0), input.size(1)});
      return torch::empty(token, input.options());
    };
    const tensor_list saved = {input.contiguous(),
                               weight.contiguous(),
                               contiguous(bias),
                               read_weight.contiguous(),
                               room({weight.size(0)}),
                               room({2}),
                               room({2}),
                               room({n, n}),
                               room({n})};
    const Kept kept(saved);
    const auto write = room({n}), h = room({input.size(2) / n});
    context->saved_data["temperature"] = temperature;
    context->saved_data["alpha"] = alpha;
    context->saved_data["steps"] = steps;
    const bool half = products_in_bfloat16();
    context->saved_data["half"] = half;
    for_product_types(kept.x, half, [&]<class T, class P>(T, P) {
      kernels::routed_streams_forward<T, P>(values<T>(kept.x), kept.projection<T>(context),
                                            kept.routed<T>(write, h), kept.shape());
    });
    context->save_for_backward(saved);
    context->mark_non_differentiable({kept.res, kept.read});
    context->set_materialize_grads(false);
    return {h, write, input, kept.res, kept.read};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const Kept kept(context->get_saved_variables());
    const auto given = [&](size_t output, const Tensor& like) {
      return gradients[output].defined() ? gradients[output].contiguous() : torch::zeros_like(like);
    };
    const auto dh = gradients[0].defined()
                        ? gradients[0].contiguous()
                        : torch::zeros({kept.shape().tokens, kept.shape().d}, kept.x.options());
    const auto dwrite = given(1, kept.read), dout = given(2, kept.x);
    const auto dx = torch::empty_like(kept.x), dweight = torch::zeros_like(kept.weight),
               dbias = gradient_if(kept.bias.defined(), kept.bias),
               dread_weight = torch::zeros_like(kept.read_weight);
    for_product_types(kept.x, context->saved_data["half"].toBool(), [&]<class T, class P>(T, P) {
      kernels::routed_streams_backward<T, P>(values<T>(kept.x), kept.projection<T>(context),
                                             kept.routed<T>({}, {}), values<T>(dh),
                                             values<T>(dwrite), values<T>(dout),
                                             {.x = values<T>(dx),
                                              .w = values<T>(dweight),
                                              .bias = values<T>(dbias),
                                              .read_weight = values<T>(dread_weight)},
                                             kept.shape());
    });
    return {dx, dweight, dbias, dread_weight, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// The rows of a projection to 3n² raw values that their differences need (kernels).
Tensor differences(const Tensor& rows, int64_t n) {
  std::vector<int64_t> at, minus;
  for (const auto& difference : kernels::route_differences(n)) {
    at.push_back(difference.at);
    minus.push_back(difference.minus);
  }
  const auto selected = [&](const std::vector<int64_t>& indices) {
    return rows.index_select(0, torch::tensor(indices));
  };
  return selected(at) - selected(minus);
}

bool fits_cpu(const Tensor& x, const RoutedSpec& spec) {
  const auto n = spec.streams;
  return runs_cpu_kernel(x) && x.dim() == 3 && x.numel() > 0 && kernels::is_compiled_size(n) &&
         x.size(2) == n * spec.read_weight.numel() && spec.norm.layer &&
         spec.projections.size() == 1 && !spec.projections[0].scale.defined() &&
         std::holds_alternative<CayleyRouting>(spec.routing);
}

}  // namespace

std::optional<Routed> route_on_cpu(const Tensor& x, const RoutedSpec& spec) {
  if (!fits_cpu(x, spec)) return std::nullopt;
  const auto n = spec.streams;
  const auto& routing = std::get<CayleyRouting>(spec.routing);
  const auto& projection = spec.projections[0];
  const auto [weight, bias] = folded_into(spec.norm, projection.weight, projection.bias);
  const auto outputs = FusedRead::apply(x, differences(weight, n),
                                        maybe(bias.defined() ? differences(bias, n) : Tensor()),
                                        spec.read_weight, n, routing.temperature, routing.alpha,
                                        routing.exact ? int64_t{-1} : routing.iterations);
  return Routed{.normalized = outputs[0],
                .state = split_streams(outputs[2], n),
                .routes = {.res = outputs[3], .read = outputs[4], .write = outputs[1]}};
}

}  // namespace geores
