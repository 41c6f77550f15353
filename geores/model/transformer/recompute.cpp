#include "geores/model/recompute.h"

#include "geores/ops/run/execution.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using fused::save;
using fused::saved;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

class RecomputedBlock : public torch::autograd::Function<RecomputedBlock> {
  struct Kept {
    Tensor x;
    Block* block;
    Dropout dropout;      // the same mask in both passes
    Execution execution;  // the backward pass runs in another thread on a GPU

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x);
    }
  };

 public:
  // Outputs: the block's, and its auxiliary loss (0 if it has none).
  static tensor_list forward(AutogradContext* context, const Tensor& x, Block* block,
                             const Dropout* dropout) {
    save(context, Kept{.x = x, .block = block, .dropout = *dropout, .execution = execution()});
    auto repeated = execution();
    repeated.repeated_for_gradients = true;
    const ExecutionScope scope(repeated);
    Trace trace;
    const auto out = run(*block, x, trace, *dropout);
    const auto loss = trace.loss();
    return {out, loss.defined() ? loss : torch::zeros({}, x.options())};
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    auto x = s.x.detach().requires_grad_(true);
    torch::AutoGradMode record(true);
    const ExecutionScope scope(s.execution);
    Trace trace;
    const auto out = run(*s.block, x, trace, s.dropout);
    // Parameters collect their gradients here, as they do in any backward pass.
    if (const auto loss = trace.loss(); loss.defined())
      torch::autograd::backward({out, loss}, {gradients[0], gradients[1]});
    else
      torch::autograd::backward({out}, {gradients[0]});
    return {x.grad(), Tensor(), Tensor()};
  }

 private:
  static Tensor run(Block& block, const Tensor& x, Trace& trace, const Dropout& dropout) {
    return dropout.active() ? block.advance(x, trace, dropout).total() : block.forward(x, trace);
  }
};

}  // namespace

Tensor forward_recomputed(const std::shared_ptr<Block>& block, const Tensor& x, Trace& trace,
                          const Dropout& dropout) {
  if (trace.probing() || !torch::GradMode::is_enabled()) return block->forward(x, trace);
  const auto outputs = RecomputedBlock::apply(x, block.get(), &dropout);
  trace.add_loss(outputs[1]);
  return outputs[0];
}

}  // namespace geores
