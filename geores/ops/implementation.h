// Which of an operation's forms runs. Composed, in plain LibTorch operations, is the definition;
// fused, a kernel with a hand-written backward, is the same numbers faster. The program runs fused
// wherever it can; tests and `geores bench` compare.
//   {
//     const ImplementationScope scope(Implementation::composed);
//     y = model->forward(x, trace);   // plain LibTorch
//   }
// Fused operations have no second derivative.
#pragma once

#include <torch/torch.h>

namespace geores {

using torch::Tensor;

enum class Implementation {
  fused,     // kernels on a CPU in float32 or float64, composed elsewhere
  composed,  // LibTorch operations everywhere
  stock  // composed, as the papers' own code does it: Cayley by a linear solve, Sinkhorn unrolled
};

Implementation implementation();

// Sets the form for as long as it lives, in all threads.
class ImplementationScope {
 public:
  explicit ImplementationScope(Implementation wanted);
  ~ImplementationScope();
  ImplementationScope(const ImplementationScope&) = delete;
  ImplementationScope& operator=(const ImplementationScope&) = delete;

 private:
  Implementation before_;
};

// Whether an operation on x runs fused: it is wanted, and x is a float32 or float64 tensor of a CPU
// outside of mixed precision.
bool runs_fused(const Tensor& x);

// Whether anything will ask for gradients of a result computed from these.
template <class... Tensors>
bool needs_gradient(const Tensors&... tensors) {
  return torch::GradMode::is_enabled() && ((tensors.defined() && tensors.requires_grad()) || ...);
}

}  // namespace geores
