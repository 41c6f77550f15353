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

#include <memory>

#include "geores/kernels/cpu/blas.h"

namespace geores {

using torch::Tensor;

enum class Implementation {
  fused,     // kernels where there are any, composed elsewhere
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

// While it lives, LibTorch's own matrix products start no threads. For a fused step: its kernels
// bring their threads, and a BLAS that keeps its own spinning after a small product slows them
// down.
class SerialProducts {
 public:
  SerialProducts();
  ~SerialProducts();
  SerialProducts(const SerialProducts&) = delete;
  SerialProducts& operator=(const SerialProducts&) = delete;

 private:
  std::unique_ptr<kernels::SerialBlas> serial_;  // null unless fused
};

// Whether an operation on x runs fused: it is wanted, and x is a float32 or float64 tensor of a
// CPU. Under bfloat16 products, too: the state is float32 all the same.
bool runs_fused(const Tensor& x);

// The same for kernels on a GPU: x is a float32 or float64 tensor there, and this build has them.
bool runs_on_gpu(const Tensor& x);

// While it lives, this thread's pass will be repeated for its gradients: operations without them
// take the form that they will take then.
class RepeatedForGradients {
 public:
  RepeatedForGradients();
  ~RepeatedForGradients();
  RepeatedForGradients(const RepeatedForGradients&) = delete;
  RepeatedForGradients& operator=(const RepeatedForGradients&) = delete;

 private:
  bool before_;
};
bool repeated_for_gradients();

// Whether anything will ask for gradients of a result computed from these.
template <class... Tensors>
bool needs_gradient(const Tensors&... tensors) {
  return torch::GradMode::is_enabled() && ((tensors.defined() && tensors.requires_grad()) || ...);
}

}  // namespace geores
