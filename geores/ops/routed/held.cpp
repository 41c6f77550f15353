#include "geores/ops/routed/held.h"

#include <string>
#include <utility>

#include "geores/kernels/routed/held_streams.h"
#include "geores/kernels/routed/wide_projection.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/gradients/packed_gradients.h"
#include "geores/ops/routed/read_norm.h"
#include "geores/ops/run/choice.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {

namespace {

using namespace fused;
using NormKindOfRead = ReadNormSpec::Kind;
using Half = kernels::BFloat16;

kernels::WideProjectionShape projection_shape(const Tensor& x, int64_t count) {
  return {.rows = x.size(0) * x.size(1), .width = x.size(2) * x.size(3), .count = count};
}

Tensor of_tokens(const Tensor& x, int64_t size) {
  return torch::empty({x.size(0), x.size(1), size}, full_options(x));
}

// Outputs: what the sublayer reads, the three routes, and x to be carried, whose gradient comes in unmixed.
class FusedHeldRead : public torch::autograd::Function<FusedHeldRead> {
  struct Kept {
    Tensor x, weight, bias, plain, inverse, read, norm_weight, statistics;
    KeptParameters parameters;
    std::vector<int64_t> has_scale;
    Tensor norm_place;
    NormKindOfRead kind;
    double norm_epsilon, offset;
    std::shared_ptr<Tensor> res;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.weight), f(s.bias), f(s.plain), f(s.inverse), f(s.read), f(s.norm_weight);
      f(s.statistics), f(s.parameters.values);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             at::TensorList parameters, const std::vector<int64_t>& has_scale,
                             double epsilon, double offset, const OptionalTensor& norm_weights,
                             NormKindOfRead kind, double norm_epsilon,
                             const std::shared_ptr<Tensor>& res) {
    const auto x = input.contiguous(), norm_weight = contiguous(norm_weights);
    const ExecutionScope exact(Precision::fp32);  // weights in their own type
    const auto [packed, bias] = PackedProjections(parameters, has_scale).packed();
    const auto weight = packed.contiguous();
    const auto n = x.size(2);
    const auto shape = projection_shape(x, weight.size(0));
    const auto plain = of_tokens(x, shape.count), inverse = of_tokens(x, 1), read = of_tokens(x, n),
               write = of_tokens(x, n), others = of_tokens(x, shape.count - 2 * n),
               statistics = of_tokens(x, 2);
    const auto h = torch::empty({x.size(0), x.size(1), x.size(3)}, x.options());
    if constexpr (kernels::kHasCuda) {
      const auto stream = current_cuda_stream();
      kernels::held_read_forward(stream,
                                 {.x = values<Half>(x),
                                  .w = values<float>(weight),
                                  .bias = values<float>(bias),
                                  .eps = static_cast<float>(epsilon),
                                  .offset = static_cast<float>(offset),
                                  .norm = read_norm<float>(kind, norm_epsilon, norm_weight),
                                  .plain = values<float>(plain),
                                  .inverse = values<float>(inverse),
                                  .read = values<float>(read),
                                  .write = values<float>(write),
                                  .others = values<float>(others),
                                  .h = values<Half>(h),
                                  .statistics = statistics_in<float>(statistics)},
                                 shape.count, stream_shape(x));
    }
    save(context, Kept{.x = x,
                       .weight = weight,
                       .bias = bias,
                       .plain = plain,
                       .inverse = inverse,
                       .read = read,
                       .norm_weight = norm_weight,
                       .statistics = statistics,
                       .parameters = KeptParameters::of(parameters),
                       .has_scale = has_scale,
                       .norm_place = gradient_place(norm_weight),
                       .kind = kind,
                       .norm_epsilon = norm_epsilon,
                       .offset = offset,
                       .res = res});
    context->mark_non_differentiable({read});
    context->set_materialize_grads(false);  // `read` has none
    return {h, read, write, others, input};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto shape = projection_shape(s.x, s.weight.size(0));
    const auto n = s.x.size(2);
    const auto batch = s.x.size(0), length = s.x.size(1), d = s.x.size(3);
    // 0 where nothing was read or nothing was written.
    const auto gradient = [](const Tensor& given, at::IntArrayRef sizes,
                             const torch::TensorOptions& options) {
      return given.defined() ? given.contiguous() : torch::zeros(sizes, options);
    };
    const auto full = full_options(s.x), half = s.x.options();
    const auto dh = gradient(gradients[0], {batch, length, d}, half),
               dwrite = gradient(gradients[2], {batch, length, n}, full),
               dothers = gradient(gradients[3], {batch, length, shape.count - 2 * n}, full),
               dout = gradient(gradients[4], s.x.sizes(), half),
               res = gradient(*s.res, {batch, length, n, n}, full);
    const auto sums = torch::zeros({(shape.width + 1) * shape.count}, full_options(s.x));
    const auto dweight = sums.slice(0, 0, s.weight.numel()).view(s.weight.sizes()),
               dbias = sums.slice(0, s.weight.numel());
    const auto dx = torch::empty_like(s.x), factors = of_tokens(s.x, shape.count + 1);
    const auto dnorm = parameter_sum(s.norm_weight, s.norm_place);
    if constexpr (kernels::kHasCuda) {
      const auto stream = current_cuda_stream();
      kernels::wide_projection_factors<float, Half>(
          stream,
          {.x = values<Half>(s.x),
           .w = values<float>(s.weight),
           .plain = values<float>(s.plain),
           .inverse = values<float>(s.inverse),
           .draw = nullptr,
           .skip = nullptr,
           .factors = values<float>(factors),
           .dx = values<Half>(dx),
           .dw = values<float>(dweight),
           .dbias = values<float>(dbias),
           .bias = values<float>(s.bias),
           .parts = {nullptr, values<float>(dwrite), values<float>(dothers), static_cast<int>(n)}},
          shape);
      kernels::held_read_backward(stream,
                                  {.x = values<Half>(s.x),
                                   .dout = values<Half>(dout),
                                   .dh = values<Half>(dh),
                                   .res = values<float>(res),
                                   .read = values<float>(s.read),
                                   .offset = static_cast<float>(s.offset),
                                   .norm = read_norm<float>(s.kind, s.norm_epsilon, s.norm_weight),
                                   .statistics = statistics_in<float>(s.statistics),
                                   .w = values<float>(s.weight),
                                   .plain = values<float>(s.plain),
                                   .inverse = values<float>(s.inverse),
                                   .factors = values<float>(factors),
                                   .dx = values<Half>(dx),
                                   .dw = values<float>(dweight),
                                   .dbias = values<float>(dbias),
                                   .dweight = values<float>(dnorm.sum)},
                                  shape.count, stream_shape(s.x));
    }
    tensor_list result = {dx};
    for (const auto& of_parameter : PackedProjections(s.parameters.values, s.has_scale)
                                        .gradients(dweight, dbias, s.parameters.places))
      result.push_back(of_parameter);
    result.resize(result.size() + 3);
    result.push_back(dnorm.gradient);
    result.resize(result.size() + 3);
    return result;
  }
};

// The gradient of x is that of the result, unmixed: FusedHeldRead mixes it.
class FusedHeldWrite : public torch::autograd::Function<FusedHeldWrite> {
  struct Kept {
    Tensor x, write, y;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.write), f(s.y);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& mixers, const Tensor& input,
                        const Tensor& writes, const Tensor& branch) {
    const auto res = mixers.contiguous(), x = input.contiguous(), write = writes.contiguous(),
               y = branch.contiguous();
    auto out = torch::empty_like(x);
    if constexpr (kernels::kHasCuda)
      kernels::wide_write_forward<float, Half, Half>(
          current_cuda_stream(), values<float>(res), values<Half>(x), values<float>(write),
          values<Half>(y), values<Half>(out), stream_shape(x));
    save(context, Kept{.x = x, .write = write, .y = y});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dout = gradients[0].contiguous();
    const auto n = s.x.size(2);
    const auto dwrite = torch::empty_like(s.write), dy = torch::empty_like(s.y),
               dres = torch::empty({s.x.size(0), s.x.size(1), n, n}, s.write.options());
    if constexpr (kernels::kHasCuda)
      kernels::wide_write_backward<float, Half, Half>(
          current_cuda_stream(), values<float>(s.write), values<Half>(s.y), values<Half>(dout),
          values<float>(dwrite), values<Half>(dy), stream_shape(s.x), values<Half>(s.x),
          values<float>(dres));
    return {dres, dout, dwrite, dy};
  }
};

int64_t count_of(const std::vector<ProjectionWeights>& projections) {
  int64_t count = 0;
  for (const auto& projection : projections) count += projection.bias.numel();
  return count;
}

}  // namespace

HeldStreams::HeldStreams(SigmoidRoutes routes, Tensor read, Tensor carried,
                         std::shared_ptr<Tensor> res)
    : routes_(std::move(routes)),
      read_(std::move(read)),
      carried_(std::move(carried)),
      res_(std::move(res)) {}

std::optional<HeldStreams> HeldStreams::make(const Tensor& x, double epsilon,
                                             const std::vector<ProjectionWeights>& projections,
                                             double offset, const ReadNormSpec& norm) {
  if constexpr (kernels::kHasCuda) {
    if (!x.is_cuda() || x.scalar_type() != torch::kBFloat16 || !torch::GradMode::is_enabled())
      return std::nullopt;
    const bool fits = x.dim() == 4 && x.numel() > 0;
    if (!Choice::state("held_streams", x, "one kernel backward")
             .need(fits, "a state (B, T, n, d) with at least one value")
             .need(fits && kernels::fits_held_streams(x.size(2), x.size(3), count_of(projections)),
                   "four streams that a cluster of eight blocks holds, at most 32 projections")
             .need(!projections.empty() && projections[0].weight.scalar_type() == torch::kFloat32 &&
                       PackedProjections::fit(projections),
                   "few projections with bias, contiguous")
             .runs())
      return std::nullopt;
    const auto parameters = PackedProjections::parameters_of(projections);
    auto res = std::make_shared<Tensor>();
    const auto outputs = FusedHeldRead::apply(
        x, at::TensorList(parameters), PackedProjections::scales_of(projections),
        rms_epsilon(epsilon), offset, maybe(norm.weight), norm.kind,
        norm.kind == NormKindOfRead::rms ? rms_epsilon(norm.epsilon) : norm.epsilon, res);
    return HeldStreams({outputs[1], outputs[2], outputs[3]}, outputs[0], outputs[4],
                       std::move(res));
  }
  return std::nullopt;
}

Tensor HeldStreams::write(const Tensor& res, const Tensor& y) const {
  *res_ = res.detach().contiguous();
  return FusedHeldWrite::apply(res, carried_, routes_.write,
                               y.scalar_type() == torch::kBFloat16 ? y : y.to(torch::kBFloat16));
}

}  // namespace geores
