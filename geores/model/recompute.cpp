#include "geores/model/recompute.h"

#include "geores/ops/run/execution.h"
#include "geores/ops/run/precision.h"

namespace geores {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

class RecomputedBlock : public torch::autograd::Function<RecomputedBlock> {
 public:
  // Outputs: the block's, and its auxiliary loss (0 if it has none).
  static tensor_list forward(AutogradContext* context, const Tensor& x, Block* block) {
    context->save_for_backward({x});
    context->saved_data["block"] = reinterpret_cast<int64_t>(block);
    context->saved_data["half"] = products_in_bfloat16();
    const RepeatedForGradients repeated;
    Trace trace;
    const auto out = block->forward(x, trace);
    const auto loss = trace.loss();
    return {out, loss.defined() ? loss : torch::zeros({}, x.options())};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    auto* block = reinterpret_cast<Block*>(context->saved_data["block"].toInt());
    auto x = context->get_saved_variables()[0].detach().requires_grad_(true);
    torch::AutoGradMode record(true);
    // On a GPU this is another thread, which knows nothing of the precision.
    const ExecutionScope as_before(s.execution);
    Trace trace;
    const auto out = block->forward(x, trace);
    // Parameters collect their gradients here, as they do in any backward pass.
    if (const auto loss = trace.loss(); loss.defined())
      torch::autograd::backward({out, loss}, {gradients[0], gradients[1]});
    else
      torch::autograd::backward({out}, {gradients[0]});
    return {x.grad(), Tensor()};
  }
};

}  // namespace

Tensor forward_recomputed(const std::shared_ptr<Block>& block, const Tensor& x, Trace& trace) {
  if (trace.probing() || !torch::GradMode::is_enabled()) return block->forward(x, trace);
  const auto outputs = RecomputedBlock::apply(x, block.get());
  trace.add_loss(outputs[1]);
  return outputs[0];
}

}  // namespace geores
