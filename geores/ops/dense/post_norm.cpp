#include "geores/ops/dense/post_norm.h"

#include "geores/kernels/dense/post_norm.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/run/choice.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

// Outputs: the normalized sum in the type of x, and in that of products.
class FusedPostNorm : public torch::autograd::Function<FusedPostNorm> {
  struct Kept {
    Tensor y, inverse;
    bool has_branch;
    torch::ScalarType product;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.y), f(s.inverse);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& branches, double eps, bool with_backward,
                             bool with_product) {
    const auto x = input.contiguous();
    auto y = torch::empty_like(x);
    auto product = with_product ? for_product_of(x, x.sizes()) : Tensor();
    const auto like = with_product ? product : for_product_of(x, {0});
    auto branch = contiguous(branches);
    if (branch.defined()) branch = branch.to(like.scalar_type());
    const auto width = x.size(-1), rows = x.numel() / width;
    const auto inverse = with_backward ? torch::empty({rows}, x.options()) : Tensor();
    on_gpu(x, like, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::post_norm_forward(stream, values<T>(x), values<A>(branch), T(eps), values<T>(y),
                                 values<A>(product), values<T>(inverse), rows, width);
    });
    if (with_backward)
      save(context, Kept{.y = y,
                         .inverse = inverse,
                         .has_branch = branch.defined(),
                         .product = like.scalar_type()});
    context->set_materialize_grads(false);  // no zeros where one of the two is not used
    if (!with_product) return {y};
    return {y, product};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dy = contiguous(gradients[0]),
               dproduct = gradients.size() > 1 ? contiguous(gradients[1]) : Tensor();
    if (!dy.defined() && !dproduct.defined()) return tensor_list(5);
    const auto dx = torch::empty_like(s.y);
    const auto dbranch =
        s.has_branch ? torch::empty(s.y.sizes(), s.y.options().dtype(s.product)) : Tensor();
    const auto width = s.y.size(-1), rows = s.y.numel() / width;
    const auto like = torch::empty({0}, s.y.options().dtype(s.product));
    on_gpu(s.y, like, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::post_norm_backward(stream, values<T>(s.y), values<T>(s.inverse), values<T>(dy),
                                  values<A>(dproduct), values<T>(dx), values<A>(dbranch), rows,
                                  width);
    });
    return {dx, dbranch, Tensor(), Tensor(), Tensor()};
  }
};

bool normalizes_fused(const Tensor& x) {
  return Choice("post_norm", x)
      .need(x.is_cuda(), "a GPU")
      .need(x.dim() > 0 && x.numel() > 0, "at least one value")
      .need(x.size(-1) <= kernels::kPostNormRow, "rows of at most 2048 values")
      .runs();
}

}  // namespace

StateAndProduct post_norm(const Tensor& x, const Tensor& branch, double eps) {
  if (!normalizes_fused(x))
    return with_product(rms_normalize(branch.defined() ? x + branch : x, eps));
  const auto outputs = FusedPostNorm::apply(x, maybe(branch), rms_epsilon(eps),
                                            needs_gradient(x, branch), /*with_product=*/true);
  return {outputs[0], outputs[1]};
}

Tensor post_norm_state(const Tensor& x, double eps) {
  if (!normalizes_fused(x)) return rms_normalize(x, eps);
  return FusedPostNorm::apply(x, OptionalTensor(), rms_epsilon(eps), needs_gradient(x),
                              /*with_product=*/false)[0];
}

StateAndProduct with_product(const Tensor& state) {
  return {state, state.is_cuda() ? for_product(state) : state};
}

}  // namespace geores
