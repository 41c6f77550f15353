#include "geores/ops/dense/post_norm.h"

#include "geores/kernels/norms/post_norm.h"
#include "geores/ops/dense/norm.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

// The tensors that FusedPostNorm allocates, in this order.
struct PostNormOutputs {
  bool state, sum, product;
};

// A separate tensor object on the same storage.
Tensor sharing(const Tensor& x) {
  return torch::empty({0}, x.options())
      .set_(x.storage(), x.storage_offset(), x.sizes(), x.strides());
}

class FusedPostNorm : public torch::autograd::Function<FusedPostNorm> {
  struct Kept {
    Tensor y, inverse;
    bool has_branch, learns_added;
    PostNormOutputs outputs;
    torch::ScalarType product;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.y), f(s.inverse);
    }
  };

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input,
                             const OptionalTensor& branches, const OptionalTensor& addeds,
                             double eps, const PostNormOutputs& wanted, bool with_backward,
                             bool learns_added) {
    const auto x = input.contiguous(), added = contiguous(addeds);
    const auto like = for_product_of(x, {0});
    auto branch = contiguous(branches);
    if (branch.defined()) branch = branch.to(like.scalar_type());
    const auto buffer = [&](bool there) { return there ? torch::empty_like(x) : Tensor(); };
    const auto y = buffer(wanted.state), sum = buffer(wanted.sum);
    // A state in the type of products serves as the product's factor; as a separate output, it
    // still receives its gradient separately.
    const bool same = x.scalar_type() == like.scalar_type() && on_gpu(x);
    auto product = !wanted.product ? Tensor()
                   : same          ? sharing(wanted.sum ? sum : y)
                                   : for_product_of(x, x.sizes());
    const auto width = x.size(-1), rows = x.numel() / width;
    const auto inverse = with_backward ? torch::empty({rows}, full_options(x)) : Tensor();
    on_state(x, like, [&]<class T, class A, class S>(T, A, S, auto... stream) {
      kernels::post_norm_forward(
          stream...,
          kernels::PostNormForward<T, A, S>{.x = values<S>(x),
                                            .branch = values<A>(branch),
                                            .added = values<S>(added),
                                            .eps = T(eps),
                                            .y = values<S>(y),
                                            .sum = values<S>(sum),
                                            .product = same ? nullptr : values<A>(product),
                                            .inverse = values<T>(inverse)},
          rows, width);
    });
    if (with_backward)
      save(context, Kept{.y = y,
                         .inverse = inverse,
                         .has_branch = branch.defined(),
                         .learns_added = learns_added,
                         .outputs = wanted,
                         .product = like.scalar_type()});
    context->set_materialize_grads(false);  // avoids zeros for an unused output
    tensor_list outputs;
    for (const auto& output : {y, sum, product})
      if (output.defined()) outputs.push_back(output);
    return outputs;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    size_t next = 0;
    const auto of = [&](bool made) { return made ? contiguous(gradients[next++]) : Tensor(); };
    const auto dy = of(s.outputs.state), dsum = of(s.outputs.sum), dproduct = of(s.outputs.product);
    tensor_list result(7);
    if (!dy.defined() && !dsum.defined() && !dproduct.defined()) return result;
    const auto dx = torch::empty_like(s.y);
    const bool same = s.y.scalar_type() == s.product && on_gpu(s.y);
    const auto dbranch = s.has_branch && !same
                             ? torch::empty(s.y.sizes(), s.y.options().dtype(s.product))
                             : Tensor();
    const auto dadded = s.learns_added ? torch::empty_like(s.y) : Tensor();
    const auto width = s.y.size(-1), rows = s.y.numel() / width;
    const auto like = torch::empty({0}, s.y.options().dtype(s.product));
    on_state(s.y, like, [&]<class T, class A, class S>(T, A, S, auto... stream) {
      kernels::post_norm_backward(
          stream...,
          kernels::PostNormBackward<T, A, S>{.y = values<S>(s.y),
                                             .inverse = values<T>(s.inverse),
                                             .dy = values<S>(dy),
                                             .dsum = values<S>(dsum),
                                             .dproduct = values<A>(dproduct),
                                             .dx = values<S>(dx),
                                             .dbranch = same ? nullptr : values<A>(dbranch),
                                             .dadded = values<S>(dadded)},
          rows, width);
    });
    result[0] = dx, result[1] = same && s.has_branch ? dx : dbranch, result[2] = dadded;
    return result;
  }
};

}  // namespace

PostNormed post_norm(const Tensor& x, const Tensor& branch, const PostNorm& norm,
                     bool wants_product) {
  const auto& added = norm.added;
  if (!KernelChoice::state("post_norm", x)
           .need(x.dim() > 0 && x.numel() > 0, "at least one value")
           .need(!on_gpu(x) || x.size(-1) <= kernels::kPostNormRow,
                 "rows of at most 2048 values on a GPU")
           .need(on_gpu(x) || !branch.defined() || branch.scalar_type() == x.scalar_type(),
                 "a branch of the state's type on a CPU")
           .need(!added.defined() ||
                     (added.sizes() == x.sizes() && added.scalar_type() == x.scalar_type()),
                 "an added tensor of the same shape and type")
           .runs()) {
    const auto v = in_full_type(x);
    const auto state =
        rms_normalize(branch.defined() ? v + branch : v, norm.epsilon).to(x.scalar_type());
    const auto next = added.defined() ? state + added : state;
    return {state, next, wants_product ? with_product(next).product : Tensor()};
  }
  const bool learns = needs_gradient(x, branch, added);
  const PostNormOutputs wanted{.state = norm.keeps_state || learns || !added.defined(),
                               .sum = added.defined(),
                               .product = wants_product && on_gpu(x)};
  const auto outputs =
      FusedPostNorm::apply(x, maybe(branch), maybe(added), rms_epsilon(norm.epsilon), wanted,
                           learns, needs_gradient(added));
  const auto state = wanted.state ? outputs[0] : Tensor(),
             next = wanted.sum ? outputs[wanted.state ? 1 : 0] : state;
  // On a CPU the product packs its factors itself.
  return {.state = state,
          .next = next,
          .product = wanted.product  ? outputs.back()
                     : wants_product ? next
                                     : Tensor()};
}

PostNormed post_norm_of_tokens(const Tensor& x, const PostNorm& norm) {
  auto flat = norm;
  if (flat.added.defined()) flat.added = flat.added.flatten(2);
  auto [state, next, none] = post_norm(x.flatten(2), {}, flat, /*wants_product=*/false);
  return {state.defined() ? state.view_as(x) : state, next.view_as(x), none};
}

StateAndProduct post_norm(const Tensor& x, const Tensor& branch, double epsilon) {
  const auto made = post_norm(x, branch, {.epsilon = epsilon}, /*wants_product=*/true);
  return {made.next, made.product};
}

StateAndProduct with_product(const Tensor& state) {
  return {state, on_gpu(state) ? for_product(state) : state};
}

PostNormed joined(const PostNormed& streams) {
  return {.state = streams.state.defined() ? streams.state.flatten(-2) : Tensor(),
          .next = streams.next.flatten(-2),
          .product = {}};
}

}  // namespace geores
