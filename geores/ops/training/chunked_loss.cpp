#include "geores/ops/training/chunked_loss.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/kernels/training/cross_entropy.h"
#include "geores/ops/dense/products.h"
#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using namespace fused;

class ChunkedCrossEntropy : public torch::autograd::Function<ChunkedCrossEntropy> {
  struct Kept {
    Tensor dx, dweight;
    Tensor weight_slot;

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.dx), f(s.dweight);
    }
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const Tensor& targets, int64_t chunk, bool gradients) {
    const auto type = x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
    const auto in = for_product(x).contiguous(), w = for_product(weight);
    const auto scored = targets >= 0;
    const auto count = scored.sum().to(type);
    const auto columns = targets.clamp_min(0).unsqueeze(1);
    auto total = torch::zeros({}, x.options().dtype(torch::kFloat64));
    Tensor dx = gradients ? torch::empty_like(x) : Tensor(), dweight;
    const auto add_gradients = [&](const Tensor& dlogits, int64_t from, int64_t size) {
      auto rows = dx.narrow(0, from, size);
      if (dlogits.scalar_type() == dx.scalar_type())
        at::mm_out(rows, dlogits, w);
      else
        rows.copy_(multiply(dlogits, w, dx.scalar_type()));
      const auto part = in.narrow(0, from, size);
      if (dweight.defined())
        add_product(dlogits.t(), part, dweight);
      else
        dweight = multiply(dlogits.t(), part, type);
    };
    const bool in_kernel = KernelChoice::any_type("cross_entropy", x, "kernel")
                               .need(on_gpu(x), "a GPU")
                               .need(x.numel() > 0, "at least one value")
                               .runs();
    for (int64_t from = 0; from < x.size(0); from += chunk) {
      const auto size = std::min(chunk, x.size(0) - from);
      const auto part = [&](const Tensor& all) { return all.narrow(0, from, size); };
      // In training, logits are rounded like every other product of this precision.
      auto logits = multiply(part(in), w.t(), in_kernel && gradients ? w.scalar_type() : type);
      if (in_kernel) {
        const auto dlogits = gradients ? gradient_buffer(logits, w) : Tensor();
        const auto losses = torch::empty({size}, count.options());
        const auto goals = part(targets).contiguous();
        on_gpu(count, w, [&]<class T, class A>(T, A, kernels::CudaStream stream) {
          const auto run = [&]<class L>(L) {
            kernels::cross_entropy_rows(stream, static_cast<const L*>(values<L>(logits)),
                                        values<int64_t>(goals), values<T>(count), values<T>(losses),
                                        values<A>(dlogits), gradients ? dlogits.stride(0) : 0, size,
                                        logits.size(1));
          };
          if (gradients)
            run(A());
          else
            run(T());
        });
        total += losses.sum(torch::kFloat64);
        if (gradients) add_gradients(dlogits, from, size);
        continue;
      }
      const auto log_sum = logits.logsumexp(1, /*keepdim=*/true);
      const auto losses = (log_sum - logits.gather(1, part(columns))).squeeze(1);
      total += torch::where(part(scored), losses, torch::zeros_like(losses)).sum(torch::kFloat64);
      if (!gradients) continue;
      // softmax − one-hot(target), written over the logits
      logits.sub_(log_sum).exp_();
      logits.scatter_add_(1, part(columns), torch::full_like(log_sum, -1));
      logits.mul_((part(scored).to(type) / count).unsqueeze(1));
      add_gradients(logits.to(w.scalar_type()), from, size);
    }
    save(context, Kept{.dx = dx, .dweight = dweight, .weight_slot = gradient_slot(weight)});
    return (total / count).to(type);
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto dx = s.dx * gradients[0];
    if (!s.weight_slot.defined())
      return {dx, s.dweight * gradients[0], Tensor(), Tensor(), Tensor()};
    on_gpu(s.dweight, [&]<class T>(T, kernels::CudaStream stream) {
      kernels::add_scaled(stream, values<T>(s.dweight), values<T>(gradients[0]),
                          values<T>(s.weight_slot), s.dweight.numel());
    });
    return {dx, Tensor(), Tensor(), Tensor(), Tensor()};
  }

 private:
  // (rows, vocabulary) in the type of w: the logits' own buffer if their kernel can overwrite it.
  static Tensor gradient_buffer(const Tensor& logits, const Tensor& w) {
    if (!kernels::holds_logits(logits.size(1), logits.element_size()))
      return torch::empty_like(logits, w.options());
    return logits.view(w.scalar_type()).narrow(1, 0, logits.size(1));
  }
};

}  // namespace

Tensor chunked_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                             int64_t chunk) {
  require(x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1) && targets.dim() == 1 &&
              targets.size(0) == x.size(0) && chunk >= 1,
          "chunked_cross_entropy", "{} rows, {} targets and chunks of {} do not fit", x.size(0),
          targets.numel(), chunk);
  const bool gradients =
      torch::GradMode::is_enabled() && (needs_gradient(x) || needs_gradient(weight));
  return ChunkedCrossEntropy::apply(x, weight, targets, chunk, gradients);
}

}  // namespace geores
