#include "geores/ops/attention/rotary.h"

#include "geores/base/error.h"
#include "geores/kernels/attention/rotary.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

Tensor rotated(const Tensor& x, const RotaryTables& tables) {
  const auto half = x.size(-1) / 2;
  const auto a = x.slice(-1, 0, half), b = x.slice(-1, half);
  return torch::cat({a * tables.cosine - b * tables.sine, b * tables.cosine + a * tables.sine}, -1)
      .to(x.scalar_type());
}

// Parts without rotation are views; only their gradients are written.
class FusedSplitHeads : public torch::autograd::Function<FusedSplitHeads> {
  struct Kept {
    Tensor cosine, sine;
    std::vector<int64_t> shape;
    int64_t heads;
    torch::TensorOptions options;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.cosine), f(s.sine);
    }
  };

  static kernels::HeadsShape heads_shape(at::IntArrayRef qkv, int64_t heads) {
    return {.batch = qkv[0], .length = qkv[1], .heads = heads, .head_width = qkv[2] / (3 * heads)};
  }

  // The type of the angles for activations of this type.
  static Tensor state_like(const torch::TensorOptions& activations) {
    const bool exact = activations.dtype() == torch::kFloat64;
    return torch::empty({0}, activations.dtype(exact ? torch::kFloat64 : torch::kFloat32));
  }

 public:
  static tensor_list forward(AutogradContext* context, const Tensor& input, int64_t heads,
                             const OptionalTensor& cosines, const OptionalTensor& sines) {
    const auto qkv = input.contiguous(), cosine = contiguous(cosines), sine = contiguous(sines);
    const auto s = heads_shape(qkv.sizes(), heads);
    save(context, Kept{.cosine = cosine,
                       .sine = sine,
                       .shape = qkv.sizes().vec(),
                       .heads = heads,
                       .options = qkv.options()});
    const auto parts = qkv.view({s.batch, s.length, 3, s.heads, s.head_width});
    if (!cosine.defined()) return {parts.select(2, 0), parts.select(2, 1), parts.select(2, 2)};
    const auto buffer = [&] {
      return torch::empty({s.batch, s.length, s.heads, s.head_width}, qkv.options());
    };
    const auto q = buffer(), k = buffer();
    on_gpu(state_like(qkv.options()), qkv, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::split_heads_forward(stream, values<A>(qkv), values<T>(cosine), values<T>(sine),
                                   values<A>(q), values<A>(k), static_cast<A*>(nullptr), s);
    });
    return {q, k, parts.select(2, 2)};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dq = gradients[0].contiguous(), dk = gradients[1].contiguous(),
               dv = gradients[2].contiguous();
    const auto dqkv = torch::empty(s.shape, s.options);
    on_gpu(state_like(s.options), dqkv, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
      kernels::split_heads_backward(stream, values<A>(dq), values<A>(dk), values<A>(dv),
                                    values<T>(s.cosine), values<T>(s.sine), values<A>(dqkv),
                                    heads_shape(s.shape, s.heads));
    });
    return {dqkv, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

RotaryTables rotary_tables(int64_t positions, int64_t head_width, double theta, const Tensor& like,
                           int64_t first) {
  const auto exact = like.options().dtype(torch::kFloat64).requires_grad(false);
  const auto frequencies = torch::pow(
      theta, torch::arange(head_width / 2, exact) * (-2.0 / static_cast<double>(head_width)));
  const auto angles = torch::outer(torch::arange(first, first + positions, exact), frequencies);
  return {.cosine = angles.cos().to(like.scalar_type()),
          .sine = angles.sin().to(like.scalar_type())};
}

Tensor rotate_by_position(const Tensor& x, int64_t first) {
  const auto width = x.size(-1);
  require(width % 2 == 0, "rotary", "the width must be even, got {}", width);
  return rotated(x, rotary_tables(x.size(-2), width, kRotaryBase, x, first));
}

Heads split_heads(const Tensor& qkv, int64_t heads, const RotaryTables& tables) {
  require(qkv.dim() == 3 && heads >= 1 && qkv.size(2) % (3 * heads) == 0, "split_heads",
          "a last axis of {} is not q, k and v of {} heads", qkv.size(-1), heads);
  const auto width = qkv.size(2) / (3 * heads);
  const bool turns = tables.cosine.defined();
  if (KernelChoice::any_type("split_heads", qkv, "kernel")
          .need(on_gpu(qkv), "a GPU")
          .need(qkv.numel() > 0 && width % 2 == 0, "heads of an even width")
          .runs()) {
    const auto parts = FusedSplitHeads::apply(qkv, heads, maybe(tables.cosine), maybe(tables.sine));
    return {parts[0].transpose(1, 2), parts[1].transpose(1, 2), parts[2].transpose(1, 2)};
  }
  const auto parts =
      qkv.unflatten(-1, std::vector<int64_t>{3, heads, width}).permute({2, 0, 3, 1, 4}).unbind(0);
  if (!turns) return {parts[0], parts[1], parts[2]};
  return {rotated(parts[0], tables), rotated(parts[1], tables), parts[2]};
}

}  // namespace geores
