#include "geores/ops/routed/routes.h"

#include "geores/base/error.h"
#include "geores/kernels/mixers/mixers.h"
#include "geores/ops/mixers/cayley.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"
#include "geores/ops/streams/stream_kernels.h"

namespace geores {
namespace {

using namespace fused;

// Outputs: read, write, and res with a mixer. Runs on a CPU or, with a mixer, a GPU.
class FusedRoutes : public torch::autograd::Function<FusedRoutes> {
  struct Kept {
    Tensor raw;
    int64_t n;
    double temperature, alpha;
    int64_t steps;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.raw);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input, int64_t n,
                             double temperature, double alpha, int64_t steps) {
    const auto raw = input.contiguous();
    const auto batch = raw.size(0), length = raw.size(1);
    const bool mixes = raw.size(-1) == 3 * n * n;
    const auto res = mixes ? torch::empty({batch, length, n, n}, raw.options()) : Tensor();
    const auto read = torch::empty({batch, length, n}, raw.options());
    const auto write = torch::empty_like(read);
    const kernels::MixerShape shape{.tokens = batch * length, .n = n};
    on(raw, [&]<class T>(T, auto... cuda_stream) {
      const kernels::CayleyRoutes<T> routes{T(temperature), T(alpha), static_cast<int>(steps)};
      if constexpr (sizeof...(cuda_stream) > 0)
        kernels::routes_forward<T>(cuda_stream..., values<T>(raw), nullptr, routes, values<T>(res),
                                   values<T>(read), values<T>(write), shape);
      else
        kernels::cayley_routes_forward(values<T>(raw), routes, values<T>(res), values<T>(read),
                                       values<T>(write), shape);
    });
    save(context,
         Kept{.raw = raw, .n = n, .temperature = temperature, .alpha = alpha, .steps = steps});
    tensor_list outputs = {read, write};
    if (mixes) outputs.push_back(res);
    return outputs;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto [raw, n, temperature, alpha, steps] = saved<Kept>(context);
    const auto dread = gradients[0].contiguous(), dwrite = gradients[1].contiguous(),
               dres = gradients.size() > 2 ? gradients[2].contiguous() : Tensor();
    auto draw = torch::empty_like(raw);
    const kernels::MixerShape shape{.tokens = raw.size(0) * raw.size(1), .n = n};
    on(raw, [&]<class T>(T, auto... cuda_stream) {
      const kernels::CayleyRoutes<T> routes{T(temperature), T(alpha), static_cast<int>(steps)};
      if constexpr (sizeof...(cuda_stream) > 0)
        kernels::routes_backward<T, T>(cuda_stream..., values<T>(raw), nullptr, routes,
                                       values<T>(dres), values<T>(dread), values<T>(dwrite),
                                       values<T>(draw), nullptr, shape);
      else
        kernels::cayley_routes_backward(values<T>(raw), routes, values<T>(dres), values<T>(dread),
                                        values<T>(dwrite), values<T>(draw), shape);
    });
    return {draw, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

ReadWrite softmax_read_write(const Tensor& raw, int64_t n, double temperature) {
  require(raw.dim() == 3 && raw.size(-1) == 2 * n * n, "softmax_read_write",
          "expected 2n² = {} values per token, got {}", 2 * n * n, raw.size(-1));
  KernelChoice choice("softmax_read_write", raw);
  if (need_mixer(choice.need(!on_gpu(raw), "a CPU"), n).runs()) {
    const auto outputs = FusedRoutes::apply(raw, n, temperature, /*alpha=*/0.0, int64_t{0});
    return {.read = outputs[0], .write = outputs[1]};
  }
  const auto both = raw.unflatten(-1, std::vector<int64_t>{2, n, n}) / temperature;
  return {.read = both.select(-3, 0).softmax(-1).mean(-2),
          .write = both.select(-3, 1).softmax(-2).sum(-1)};
}

Routes cayley_routes(const Tensor& raw, int64_t n, const CayleyRouting& routing) {
  require(raw.dim() == 3 && raw.size(-1) == 3 * n * n, "cayley_routes",
          "expected 3n² = {} values per token, got {}", 3 * n * n, raw.size(-1));
  KernelChoice choice("cayley_routes", raw);
  if (need_mixer(choice, n).need_on_gpu(!routing.exact, "the iterated Cayley map").runs()) {
    const auto steps = routing.exact ? int64_t{-1} : routing.iterations;
    const auto outputs = FusedRoutes::apply(raw, n, routing.temperature, routing.alpha, steps);
    return {.res = outputs[2], .read = outputs[0], .write = outputs[1]};
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
