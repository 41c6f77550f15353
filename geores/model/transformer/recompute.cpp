#include "geores/model/transformer/recompute.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/run/saved_state.h"

namespace geores {
namespace {

using fused::save;
using fused::saved;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// One call of a sublayer in the forward pass. The output's graph begins at the input, a leaf.
struct SublayerCall {
  Tensor input, output;
};
using SublayerCalls = std::vector<SublayerCall>;

// The sublayer, which records its graph although the surrounding pass does not.
Sublayer recorded(Sublayer f, SublayerCalls& calls) {
  const auto record = [&calls](const Tensor& h, const auto& run) {
    const torch::AutoGradMode with_graph(true);
    const auto input = h.detach().requires_grad_(true);
    calls.push_back({input, run(input)});
    return calls.back().output.detach();
  };
  return {[f, record](const Tensor& h) { return record(h, f); },
          [f, record](const Tensor& pre, const Tensor& h, const Tensor& post) {
            return record(h, [&](const Tensor& input) { return f.between(pre, input, post); });
          }};
}

// Returns the output of an earlier call; its backward pass is that of the call.
class RepeatedCall : public torch::autograd::Function<RepeatedCall> {
  struct Kept {
    SublayerCall call;

    template <class Self, class F>
    static void tensors(Self&, F&&) {}
  };

 public:
  static Tensor forward(AutogradContext* context, const Tensor& /*input*/,
                        const SublayerCall* call) {
    save(context, Kept{*call});
    return call->output.detach();
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    auto [input, output] = saved<Kept>(context).call;
    torch::autograd::backward({output}, {gradients[0]});
    const auto gradient = input.grad();
    input.mutable_grad().reset();
    return {gradient, Tensor()};
  }
};

// Replaces the sublayers in the order in which they were called. The maps of a connection around a
// sublayer are parameters: they receive their gradients from the recorded call.
Sublayer repeated(const SublayerCall*& next) {
  return {[&next](const Tensor& h) { return RepeatedCall::apply(h, next++); },
          [&next](const Tensor&, const Tensor& h, const Tensor&) {
            return RepeatedCall::apply(h, next++);
          }};
}

struct BlockGroup {
  std::span<const std::shared_ptr<Block>> blocks;
  Recompute what;
  const Dropout* dropout;
};

class RecomputedGroup : public torch::autograd::Function<RecomputedGroup> {
  struct Kept {
    Tensor x, read;
    std::span<const std::shared_ptr<Block>> blocks;
    Recompute what;
    Dropout dropout;                       // the same mask in both passes
    Execution execution;                   // the backward pass runs in another thread on a GPU
    std::shared_ptr<SublayerCalls> calls;  // of Recompute::connections

    template <class Self, class F>
    static void tensors(Self& s, F&& f) {
      f(s.x), f(s.read);
    }
  };

 public:
  // Outputs: the last state, the auxiliary loss (0 if there is none), and the state's `read` if it has one.
  static tensor_list forward(AutogradContext* context, const Tensor& x,
                             const fused::OptionalTensor& reads, const BlockGroup* group) {
    const auto calls = std::make_shared<SublayerCalls>();
    const auto read = reads.value_or(Tensor());
    save(context, Kept{.x = x,
                       .read = read,
                       .blocks = group->blocks,
                       .what = group->what,
                       .dropout = *group->dropout,
                       .execution = execution(),
                       .calls = calls});
    auto twice = execution();
    twice.repeated_for_gradients = true;
    const ExecutionScope scope(twice);
    Trace trace;
    const auto out =
        run(group->blocks, {x, read}, trace, [&](const Block& block) -> Block::Branches {
          const auto own = block.branches(*group->dropout);
          if (group->what == Recompute::blocks) return own;
          return {recorded(own.attention, *calls), recorded(own.mlp, *calls)};
        });
    const auto loss = trace.loss();
    tensor_list outputs = {
        out.x,
        loss.defined() ? loss : torch::zeros({}, x.options().dtype(full_type(x.scalar_type())))};
    if (out.read.defined()) outputs.push_back(out.read);
    return outputs;
  }

  static tensor_list backward(AutogradContext* context, tensor_list gradients) {
    const auto s = saved<Kept>(context);
    const auto calls = std::move(*s.calls);  // autograd keeps s until all backward passes are over
    const auto* next = calls.data();
    const auto x = s.x.detach().requires_grad_(true);
    const auto read = s.read.defined() ? s.read.detach().requires_grad_(true) : Tensor();
    torch::AutoGradMode record(true);
    const ExecutionScope scope(s.execution);
    Trace trace;
    const auto out = run(s.blocks, {x, read}, trace, [&](const Block& block) -> Block::Branches {
      if (s.what == Recompute::blocks) return block.branches(s.dropout);
      return {repeated(next), repeated(next)};
    });
    // Parameters accumulate their gradients here, as in any backward pass.
    tensor_list outputs = {out.x}, of_outputs = {gradients[0]};
    if (const auto loss = trace.loss(); loss.defined())
      outputs.push_back(loss), of_outputs.push_back(gradients[1]);
    if (out.read.defined()) outputs.push_back(out.read), of_outputs.push_back(gradients[2]);
    torch::autograd::backward(outputs, of_outputs);
    return {x.grad(), read.defined() ? read.grad() : Tensor(), Tensor()};
  }

 private:
  struct Streams {
    Tensor x, read;
  };
  template <class BranchesOf>
  static Streams run(std::span<const std::shared_ptr<Block>> blocks, const Streams& from,
                     Trace& trace, const BranchesOf& branches_of) {
    State state(from.x, {}, nullptr, from.read);
    for (const auto& block : blocks) state = block->advance(state, trace, branches_of(*block));
    return {state.total(), state.read};
  }
};

// A group stores the n input streams. During its backward pass a block stores, in vectors of the
// width, about 3 (n + 2) including the sublayers' (9 for additive, 17 for four streams on a GPU),
// or n + 2 without them. The group size balances the two.
size_t group_size(const std::vector<std::shared_ptr<Block>>& blocks, Recompute what) {
  const auto& traits = blocks.front()->attention_residual().traits();
  const auto n = traits.layout == StreamLayout::expand ? static_cast<double>(traits.streams) : 1.0;
  const auto of_a_block = what == Recompute::blocks ? 3 * (n + 2) : n + 2;
  const auto layers = static_cast<double>(blocks.size());
  return static_cast<size_t>(std::max(1.0, std::round(std::sqrt(n * layers / of_a_block))));
}

}  // namespace

State forward_recomputed(const std::vector<std::shared_ptr<Block>>& blocks, Recompute what,
                         const Tensor& x, Trace& trace, const Dropout& dropout) {
  const std::span all(blocks);
  const auto size = group_size(blocks, what);
  State state = x;
  for (size_t first = 0; first < all.size(); first += size) {
    const BlockGroup group{.blocks = all.subspan(first, std::min(size, all.size() - first)),
                           .what = what,
                           .dropout = &dropout};
    const auto outputs = RecomputedGroup::apply(state.x, fused::maybe(state.read), &group);
    trace.add_loss(outputs[1]);
    state = {outputs[0], {}, nullptr, outputs.size() > 2 ? outputs[2] : Tensor()};
  }
  return state;
}

}  // namespace geores
