#include "geores/kernels/routed/routed_streams.h"
#include "geores/ops/routed/forms/carried_form.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;

// Outputs: the sublayer's input, the carried x, the values of res and read, and write. The incoming
// gradient of the carried x is unmixed (forms.h). The norm of x has neither weight nor bias.
class FusedRead : public torch::autograd::Function<FusedRead> {
  struct Kept {
    Tensor x, weight, bias, read_weight;  // weight (differences, n·d), bias may be undefined
    Tensor entries, statistics, collected_statistics, res, read;
    double temperature, alpha;
    int64_t steps;
    bool half;  // products in bfloat16

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.weight), f(s.bias), f(s.read_weight), f(s.entries), f(s.statistics),
          f(s.collected_statistics), f(s.res), f(s.read);
    }

    template <class T>
    kernels::RouteProjection<T> projection() const {
      return {.norm = {},
              .w = values<T>(weight),
              .bias = values<T>(bias),
              .routes = {T(temperature), T(alpha), static_cast<int>(steps)},
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

    kernels::StreamShape shape() const { return split_shape(x, read.size(2)); }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                             const OptionalTensor& bias, const Tensor& read_weight, int64_t n,
                             double temperature, double alpha, int64_t steps) {
    const auto buffer = [&](std::vector<int64_t> token) {
      token.insert(token.begin(), {input.size(0), input.size(1)});
      return torch::empty(token, input.options());
    };
    const Kept kept{.x = input.contiguous(),
                    .weight = weight.contiguous(),
                    .bias = contiguous(bias),
                    .read_weight = read_weight.contiguous(),
                    .entries = buffer({weight.size(0)}),
                    .statistics = buffer({2}),
                    .collected_statistics = buffer({2}),
                    .res = buffer({n, n}),
                    .read = buffer({n}),
                    .temperature = temperature,
                    .alpha = alpha,
                    .steps = steps,
                    .half = products_in_bfloat16()};
    const auto write = buffer({n}), h = buffer({input.size(2) / n});
    for_product_types(kept.x, kept.half, [&]<class T, class P>(T, P) {
      kernels::routed_streams_forward<T, P>(values<T>(kept.x), kept.projection<T>(),
                                            kept.routed<T>(write, h), kept.shape());
    });
    save(context, kept);
    context->mark_non_differentiable({kept.res, kept.read});
    context->set_materialize_grads(false);
    return {h, input, kept.res, kept.read, write};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto given = [&](size_t output, const Tensor& like) {
      return gradients[output].defined() ? gradients[output].contiguous() : torch::zeros_like(like);
    };
    const auto dh = gradients[0].defined()
                        ? gradients[0].contiguous()
                        : torch::zeros({s.shape().tokens, s.shape().d}, s.x.options());
    const auto dout = given(1, s.x), dwrite = given(4, s.read);
    const auto dx = torch::empty_like(s.x), dweight = torch::zeros_like(s.weight),
               dbias = gradient_if(s.bias.defined(), s.bias),
               dread_weight = torch::zeros_like(s.read_weight);
    for_product_types(s.x, s.half, [&]<class T, class P>(T, P) {
      kernels::routed_streams_backward<T, P>(values<T>(s.x), s.projection<T>(), s.routed<T>({}, {}),
                                             values<T>(dh), values<T>(dwrite), values<T>(dout),
                                             {.x = values<T>(dx),
                                              .w = values<T>(dweight),
                                              .bias = values<T>(dbias),
                                              .read_weight = values<T>(dread_weight)},
                                             s.shape());
    });
    return {dx, dweight, dbias, dread_weight, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// The rows of a projection to 3n² raw values whose differences the kernels need.
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

}  // namespace

std::unique_ptr<RoutedForm> block_form(const RoutedInput& in, const RoutedSpec& spec) {
  const auto& x = in.x;
  const auto n = spec.streams;
  const auto* routing = std::get_if<CayleyRouting>(&spec.routing);
  if (!need_mixer(KernelChoice("routes", x, "blocks of tokens")
                      .need(routing != nullptr, "Cayley routes")
                      .need(!on_gpu(x), "a CPU")
                      .need(x.numel() > 0, "at least one value"),
                  n)
           .need(spec.read_norm.kind == ReadNormSpec::Kind::layer && spec.tiles == 1,
                 "LayerNorm of the one stream that the sublayer reads")
           .need(spec.norm.layer && !in.normalized.defined(), "LayerNorm of the state")
           .need(spec.projections.size() == 1 && !spec.projections[0].scale.defined(),
                 "one projection without scale")
           .runs())
    return nullptr;
  const auto& projection = spec.projections[0];
  const auto [weight, bias] = folded_into(spec.norm, projection.weight, projection.bias);
  return CarriedForm::of(FusedRead::apply(
      x, differences(weight, n), maybe(bias.defined() ? differences(bias, n) : Tensor()),
      spec.read_norm.weight, n, routing->temperature, routing->alpha,
      routing->exact ? int64_t{-1} : routing->iterations));
}

}  // namespace geores
