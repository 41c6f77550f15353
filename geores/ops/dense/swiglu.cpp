#include "geores/ops/dense/swiglu.h"

#include "geores/kernels/dense/swiglu.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

class FusedSwiGlu : public torch::autograd::Function<FusedSwiGlu> {
  struct Kept {
    Tensor parts;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.parts);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input) {
    const auto parts = input.contiguous();
    const auto hidden = parts.size(-1) / 2, rows = parts.numel() / parts.size(-1);
    auto shape = parts.sizes().vec();
    shape.back() = hidden;
    auto y = torch::empty(shape, parts.options());
    on_activations(parts, [&]<class A>(A, auto... stream) {
      kernels::swiglu_forward<A>(stream..., values<A>(parts), values<A>(y), rows, hidden);
    });
    save(context, Kept{.parts = parts});
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dy = gradients[0].contiguous();
    auto dparts = torch::empty_like(s.parts);
    const auto hidden = dy.size(-1), rows = dy.numel() / hidden;
    on_activations(dy, [&]<class A>(A, auto... stream) {
      kernels::swiglu_backward<A>(stream..., values<A>(s.parts), values<A>(dy), values<A>(dparts),
                                  rows, hidden);
    });
    return {dparts};
  }
};

}  // namespace

Tensor swiglu(const Tensor& x) {
  if (KernelChoice::any_type("swiglu", x, "kernel")
          .need(
              on_gpu(x) || x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64,
              "float32 or float64 values on a CPU")
          .need(x.numel() > 0 && x.size(-1) % 2 == 0, "pairs of values")
          .runs())
    return FusedSwiGlu::apply(x);
  const auto parts = x.chunk(2, -1);
  return torch::silu(parts[0]) * parts[1];
}

}  // namespace geores
