#include "geores/ops/routed/routes.h"

#include "geores/base/error.h"
#include "geores/kernels/mixers/mixers.h"
#include "geores/kernels/sizes.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/mixers/sinkhorn.h"
#include "geores/ops/run/dispatch.h"

namespace geores {
namespace {

using namespace fused;

// Outputs: res, read, write. On a CPU, or a GPU.
class FusedCayleyRoutes : public torch::autograd::Function<FusedCayleyRoutes> {
 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input, int64_t n,
                             double temperature, double alpha, int64_t steps) {
    const auto raw = input.contiguous();
    const auto batch = raw.size(0), length = raw.size(1);
    const auto res = torch::empty({batch, length, n, n}, raw.options());
    const auto read = torch::empty({batch, length, n}, raw.options());
    const auto write = torch::empty_like(read);
    const kernels::MixerShape shape{.tokens = batch * length, .n = n};
    on(raw, [&]<class T>(T, auto... place) {
      const kernels::CayleyRoutes<T> routes{T(temperature), T(alpha), static_cast<int>(steps)};
      if constexpr (sizeof...(place) > 0)
        kernels::routes_forward<T>(place..., values<T>(raw), nullptr, routes, values<T>(res),
                                   values<T>(read), values<T>(write), shape);
      else
        kernels::cayley_routes_forward(values<T>(raw), routes, values<T>(res), values<T>(read),
                                       values<T>(write), shape);
    });
    context->save_for_backward({raw});
    context->saved_data["n"] = n;
    context->saved_data["temperature"] = temperature;
    context->saved_data["alpha"] = alpha;
    context->saved_data["steps"] = steps;
    return {res, read, write};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto raw = context->get_saved_variables()[0];
    const auto dres = gradients[0].contiguous(), dread = gradients[1].contiguous(),
               dwrite = gradients[2].contiguous();
    auto draw = torch::empty_like(raw);
    const kernels::MixerShape shape{.tokens = raw.size(0) * raw.size(1),
                                    .n = context->saved_data["n"].toInt()};
    on(raw, [&]<class T>(T, auto... place) {
      const kernels::CayleyRoutes<T> routes{T(context->saved_data["temperature"].toDouble()),
                                            T(context->saved_data["alpha"].toDouble()),
                                            static_cast<int>(context->saved_data["steps"].toInt())};
      if constexpr (sizeof...(place) > 0)
        kernels::routes_backward<T, T>(place..., values<T>(raw), nullptr, routes, values<T>(dres),
                                       values<T>(dread), values<T>(dwrite), values<T>(draw),
                                       nullptr, shape);
      else
        kernels::cayley_routes_backward(values<T>(raw), routes, values<T>(dres), values<T>(dread),
                                        values<T>(dwrite), values<T>(draw), shape);
    });
    return {draw, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Routes guarded_routes(const Tensor& raw, int64_t n, int64_t iterations) {
  require(raw.dim() == 3 && raw.size(-1) == 2 * n + n * n, "guarded_routes",
          "expected 2n + n² = {} values per token, got {}", 2 * n + n * n, raw.size(-1));
  const auto parts = raw.split_with_sizes({n, n, n * n}, -1);
  return {.res = guarded_sinkhorn(parts[2].unflatten(-1, std::vector<int64_t>{n, n}), iterations),
          .read = torch::sigmoid(parts[0]),
          .write = 2 * torch::sigmoid(parts[1])};
}

Routes cayley_routes(const Tensor& raw, int64_t n, const CayleyRouting& routing) {
  require(raw.dim() == 3 && raw.size(-1) == 3 * n * n, "cayley_routes",
          "expected 3n² = {} values per token, got {}", 3 * n * n, raw.size(-1));
  const auto fits_gpu = runs_cuda_kernel(raw) && kernels::is_device_mixer_size(n) && !routing.exact;
  if (fits_gpu || (runs_cpu_kernel(raw) && kernels::is_compiled_size(n))) {
    const auto steps = routing.exact ? int64_t{-1} : routing.iterations;
    const auto outputs =
        FusedCayleyRoutes::apply(raw, n, routing.temperature, routing.alpha, steps);
    return {.res = outputs[0], .read = outputs[1], .write = outputs[2]};
  }
  const auto parts = raw.unflatten(-1, std::vector<int64_t>{3, n, n}).unbind(-3);
  const auto pre = (parts[0] / routing.temperature).softmax(-1);
  const auto post = (parts[1] / routing.temperature).softmax(-2);
  const auto w = skew(parts[2]);
  return {.res = routing.exact ? cayley_solve(-0.5 * routing.alpha * w)
                               : cayley_iterative(w, routing.alpha, routing.iterations),
          .read = pre.mean(-2),
          .write = post.sum(-1)};
}

}  // namespace geores
