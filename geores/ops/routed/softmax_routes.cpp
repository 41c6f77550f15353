#include "geores/ops/routed/softmax_routes.h"

#include "geores/kernels/routed/softmax_routes.h"
#include "geores/kernels/sizes.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/gradients/packed_gradients.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;

constexpr double kLayerNormEps = 1e-5;

// The kernels' arguments besides tensors.
struct SoftmaxSpec {
  kernels::SoftmaxShape shape;
  double temperature, alpha;
  int64_t steps;
  double epsilon;
  bool has_bias;

  template <class T>
  kernels::SoftmaxRouting<T> routing() const {
    return {T(temperature), T(alpha), static_cast<int>(steps)};
  }

  // The parameters, or their gradients: weight, then bias, then the norm's weight and bias if there
  // are any.
  template <class T>
  kernels::SoftmaxGenerator<T> generator(const std::vector<Tensor>& p) const {
    using Value = std::remove_const_t<T>;
    const size_t norm = has_bias ? 2 : 1;
    return {values<Value>(p[0]), has_bias ? values<Value>(p[1]) : nullptr,
            shape.layer ? values<Value>(p[norm]) : nullptr,
            shape.layer ? values<Value>(p[norm + 1]) : nullptr};
  }
};

// Outputs: read, write, res where there is a mixer, and x.
class FusedSoftmaxRoutes : public torch::autograd::Function<FusedSoftmaxRoutes> {
  struct Kept {
    Tensor x, packed, bias, plain, inverse;
    KeptParameters parameters;
    SoftmaxSpec spec;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.packed), f(s.bias), f(s.plain), f(s.inverse), f(s.parameters.values);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             at::TensorList parameters, const SoftmaxSpec& spec,
                             bool with_backward) {
    const auto x = input.contiguous();
    const auto& s = spec.shape;
    const auto batch = x.size(0), length = x.size(1);
    const auto buffer = [&](at::IntArrayRef sizes) { return torch::empty(sizes, full_options(x)); };
    const auto packed = buffer({s.count(), s.width}), bias = buffer({s.differences()});
    const auto plain = with_backward ? buffer({s.rows, s.count()}) : Tensor(),
               inverse = with_backward ? buffer({s.rows}) : Tensor();
    const auto read = buffer({batch, length, s.n}), write = torch::empty_like(read),
               res = s.mixes ? buffer({batch, length, s.n, s.n}) : Tensor();
    on_gpu_state(x, [&]<class T, class S>(T, S, kernels::CudaStream cuda_stream) {
      kernels::pack_differences<T>(cuda_stream, spec.generator<const T>(parameters.vec()),
                                   values<T>(packed), values<T>(bias), s);
      const auto partial = buffer({kernels::wide_projection_values<T>(s.projection())});
      kernels::wide_projection_sums<T, S>(cuda_stream, values<S>(x), values<T>(packed),
                                          values<T>(partial), s.projection());
      kernels::softmax_routes_forward<T>(cuda_stream,
                                         {.partial = values<T>(partial),
                                          .bias = values<T>(bias),
                                          .eps = T(spec.epsilon),
                                          .plain = values<T>(plain),
                                          .inverse = values<T>(inverse),
                                          .res = values<T>(res),
                                          .read = values<T>(read),
                                          .write = values<T>(write)},
                                         spec.routing<T>(), s);
    });
    if (with_backward)
      save(context, Kept{.x = x,
                         .packed = packed,
                         .bias = bias,
                         .plain = plain,
                         .inverse = inverse,
                         .parameters = KeptParameters::of(parameters),
                         .spec = spec});
    context->set_materialize_grads(
        false);  // avoids zeros of the state's size for an unused skip output
    tensor_list outputs = {read, write};
    if (s.mixes) outputs.push_back(res);
    outputs.push_back(input);
    return outputs;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto kept = saved<Kept>(context);
    const auto& s = kept.spec.shape;
    const auto skip = contiguous(gradients.back());
    const auto of_route = [&](size_t i, int64_t each) {
      return gradients[i].defined() ? gradients[i].contiguous()
                                    : torch::zeros({s.rows * each}, full_options(kept.x));
    };
    const auto dread = of_route(0, s.n), dwrite = of_route(1, s.n),
               dres = s.mixes ? of_route(2, s.n * s.n) : Tensor();
    const auto sums = torch::zeros({s.count() * s.width + s.differences()}, full_options(kept.x));
    const auto dpacked = sums.slice(0, 0, s.count() * s.width),
               dbias = sums.slice(0, s.count() * s.width);
    const auto dx = torch::empty_like(kept.x),
               factors = torch::empty({s.rows, s.count() + 1}, full_options(kept.x));
    const ParameterSums parameters(kept.parameters);
    on_gpu_state(kept.x, [&]<class T, class S>(T, S, kernels::CudaStream cuda_stream) {
      kernels::softmax_routes_backward<T>(cuda_stream,
                                          {.plain = values<T>(kept.plain),
                                           .inverse = values<T>(kept.inverse),
                                           .bias = values<T>(kept.bias),
                                           .dres = values<T>(dres),
                                           .dread = values<T>(dread),
                                           .dwrite = values<T>(dwrite),
                                           .factors = values<T>(factors),
                                           .dbias = values<T>(dbias)},
                                          kept.spec.routing<T>(), s);
      kernels::wide_projection_from_factors<T, S>(cuda_stream,
                                                  {.x = values<S>(kept.x),
                                                   .w = values<T>(kept.packed),
                                                   .plain = nullptr,
                                                   .inverse = nullptr,
                                                   .draw = nullptr,
                                                   .skip = values<S>(skip),
                                                   .factors = values<T>(factors),
                                                   .dx = values<S>(dx),
                                                   .dw = values<T>(dpacked),
                                                   .dbias = nullptr},
                                                  s.projection());
      kernels::unpack_difference_gradients<T>(
          cuda_stream, kept.spec.generator<const T>(kept.parameters.values), values<T>(dpacked),
          values<T>(dbias), kept.spec.generator<T>(parameters.sums), s);
    });
    tensor_list result = {dx};
    result.insert(result.end(), parameters.gradients.begin(), parameters.gradients.end());
    result.resize(result.size() + 2);
    return result;
  }
};

}  // namespace

std::optional<SoftmaxRoutes> wide_softmax_routes(const Tensor& x, const RouteGenerator& generator,
                                                 int64_t n, const CayleyRouting& routing) {
  static const auto count = numbers_that(kernels::is_device_mixer_size) + " streams";
  if (!on_gpu(x)) return std::nullopt;
  const auto& norm = generator.norm;
  std::vector<Tensor> parameters = {generator.weight};
  if (generator.bias.defined()) parameters.push_back(generator.bias);
  if (norm.layer) parameters.insert(parameters.end(), {norm.weight, norm.bias});
  bool plain = true;
  for (const auto& parameter : parameters)
    plain = plain && parameter.defined() && parameter.is_contiguous() &&
            parameter.scalar_type() == full_type(x.scalar_type());
  if (!KernelChoice::state("softmax_routes", x, "one pass over the state, routes in one kernel")
           .need(x.dim() == 3 && x.numel() > 0, "at least one value")
           .need(kernels::is_device_mixer_size(n), count.c_str())
           .need(plain && (norm.layer || !norm.weight.defined()),
                 "contiguous parameters of the state's type, none in an RMSNorm")
           .runs())
    return std::nullopt;
  const auto width = x.size(-1);
  const SoftmaxSpec spec{.shape = {.rows = x.numel() / width,
                                   .width = width,
                                   .n = n,
                                   .layer = norm.layer,
                                   .mixes = generator.weight.size(0) == 3 * n * n},
                         .temperature = routing.temperature,
                         .alpha = routing.alpha,
                         .steps = routing.exact ? -1 : routing.iterations,
                         .epsilon = norm.layer ? kLayerNormEps : rms_epsilon(norm.epsilon),
                         .has_bias = generator.bias.defined()};
  bool learns = needs_gradient(x);
  for (const auto& parameter : parameters) learns = learns || needs_gradient(parameter);
  const auto outputs = FusedSoftmaxRoutes::apply(x, at::TensorList(parameters), spec, learns);
  return SoftmaxRoutes{.routes = {.res = spec.shape.mixes ? outputs[2] : Tensor(),
                                  .read = outputs[0],
                                  .write = outputs[1]},
                       .skip = outputs.back()};
}

}  // namespace geores
