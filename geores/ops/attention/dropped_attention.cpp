#include "geores/ops/attention/dropped_attention.h"

#include <cmath>
#include <limits>

#include "geores/base/error.h"
#include "geores/kernels/attention/dropped_softmax.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

int64_t score_rows(const Tensor& scores) {
  return scores.size(0) * scores.size(1) * scores.size(2);
}

// The kernels of a GPU.
class FusedDroppedSoftmax : public torch::autograd::Function<FusedDroppedSoftmax> {
  struct Kept {
    Tensor scores, step;  // the mask points to the step
    kernels::DropoutMask mask;
    kernels::WeightsShape shape;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.scores), f(s.step);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& step,
                        const kernels::DropoutMask& mask, double scale, bool causal) {
    const auto scores = input.contiguous();
    const kernels::WeightsShape shape{
        .rows = score_rows(scores), .length = scores.size(3), .scale = scale, .causal = causal};
    auto weights = torch::empty_like(scores);
    on_gpu_activations(scores, [&]<class A>(A, kernels::CudaStream stream) {
      kernels::dropped_softmax_forward<A>(stream, values<A>(scores), values<A>(weights), mask,
                                          shape);
    });
    save(context, Kept{.scores = scores, .step = step, .mask = mask, .shape = shape});
    return weights;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dweights = gradients[0].contiguous();
    auto dscores = torch::empty_like(s.scores);
    on_gpu_activations(s.scores, [&]<class A>(A, kernels::CudaStream stream) {
      kernels::dropped_softmax_backward<A>(stream, values<A>(s.scores), values<A>(dweights),
                                           values<A>(dscores), s.mask, s.shape);
    });
    return {dscores, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Tensor composed_dropped_softmax(const Tensor& scores, double scale, bool causal,
                                const Dropout& dropout, int64_t site) {
  auto scaled = scores * scale;
  if (causal) {
    const auto length = scores.size(-1);
    const auto later = torch::ones({length, length}, scores.options().dtype(torch::kBool)).triu(1);
    scaled = scaled.masked_fill(later, -std::numeric_limits<double>::infinity());
  }
  return dropped(torch::softmax(scaled, -1), dropout, site);
}

}  // namespace

Tensor dropped_softmax(const Tensor& scores, double scale, bool causal, const Dropout& dropout,
                       int64_t site) {
  require(scores.dim() == 4 && scores.size(2) == scores.size(3), "dropped_softmax",
          "scores of {} axes are not (batch, heads, positions, positions)", scores.dim());
  if (!KernelChoice::state("dropped_softmax", scores)
           .need(on_gpu(scores), "a GPU")
           .need(dropout.active() && dropout.step.device() == scores.device(),
                 "the step's number on the device of the values")
           .need(scores.numel() > 0 &&
                     kernels::dropped_softmax_fits(score_rows(scores), scores.size(3)),
                 "1 to 1024 positions")
           .runs())
    return composed_dropped_softmax(scores, scale, causal, dropout, site);
  return FusedDroppedSoftmax::apply(scores, dropout.step, mask_of(scores, dropout, site), scale,
                                    causal);
}

Tensor dropped_attention(const Heads& heads, bool causal, const Dropout& dropout, int64_t site) {
  // On a CPU LibTorch's products gain nothing from bfloat16 factors.
  const auto factor = [](const Tensor& x) { return on_gpu(x) ? for_product(x) : x; };
  const auto q = factor(heads.q), k = factor(heads.k), v = factor(heads.v);
  const auto scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
  const auto weights = dropped_softmax(q.matmul(k.transpose(-2, -1)), scale, causal, dropout, site);
  return weights.matmul(v).transpose(1, 2).flatten(2).to(heads.v.scalar_type());
}

}  // namespace geores
