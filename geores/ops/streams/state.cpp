#include "geores/ops/streams/state.h"

#include "geores/kernels/dense/linear.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/kernel_choice.h"

namespace geores {
namespace {

using namespace fused;

// x + branch for a float32 x and a bfloat16 branch, on a GPU.
class FusedAddBranch : public torch::autograd::Function<FusedAddBranch> {
 public:
  static Tensor forward(AutogradContext*, const Tensor& states, const Tensor& branches) {
    const auto state = states.contiguous(), branch = branches.contiguous();
    auto out = torch::empty_like(state);
    on_gpu(state, branch, [&]<class T, class A>(T, A, kernels::CudaStream cuda_stream) {
      kernels::add_branch(cuda_stream, values<T>(state), values<A>(branch), values<T>(out),
                          state.numel());
    });
    return out;
  }

  static tensor_list backward(AutogradContext*, tensor_list gradients) {
    return {gradients[0], gradients[0].to(torch::kBFloat16)};
  }
};

bool fits(const Tensor& x, const Tensor& branch) {
  return branch.sizes() == x.sizes() && branch.scalar_type() == product_type(x.scalar_type());
}

}  // namespace

Tensor State::total() const {
  if (write) return write->total(branch);
  if (!branch.defined()) return x;
  if (KernelChoice("add_branch", x)
          .need(on_gpu(x), "a GPU")
          .need(x.scalar_type() == torch::kFloat32, "a float32 state")
          .need(branch.scalar_type() == torch::kBFloat16, "a bfloat16 branch")
          .need(branch.sizes() == x.sizes(), "a branch of the state's shape")
          .runs())
    return FusedAddBranch::apply(x, branch);
  return x + branch;
}

State with_branch(const Tensor& x, const Tensor& branch) {
  const State state(x, branch);
  const bool later =
      KernelChoice("add_branch", x, "part of the next kernel")
          .need(on_gpu(x), "a GPU")
          .need(fits(x, branch), "a branch of the state's shape, as products give it")
          .runs();
  return later ? state : state.total();
}

Summands for_kernels(const State& state) {
  if (!state.write && (!state.branch.defined() || fits(state.x, state.branch)))
    return {state.x, state.branch};
  return {state.total(), Tensor()};
}

}  // namespace geores
