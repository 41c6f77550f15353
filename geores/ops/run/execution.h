// How operations run: in which form, in which precision, and where a training step collects the
// gradients of its parameters. This scope is the only state of execution outside of arguments, and
// each thread has its own:
//   {
//     const ExecutionScope scope(Form::composed);
//     y = model->forward(x, trace);   // plain LibTorch
//   }
// A backward pass follows its forward pass: what it needs of this is kept with the graph. On a GPU it
// runs in another thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "geores/kernels/cpu/blas.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

class StepParameters;  // ops/gradients/step_parameters.h
class Explanation;     // ops/run/kernel_choice.h

enum class Form {
  fused,     // kernels with a hand-written backward where there are any, composed elsewhere
  composed,  // LibTorch operations everywhere: the definition
  stock  // composed as the papers' own code does it: Cayley by a linear solve, Sinkhorn unrolled
};

enum class Precision {
  fp32,  // float32 throughout
  tf32,  // float32 products on a GPU drop digits of their factors (10 bits of mantissa remain)
  bf16,  // as tf32, and large products (linear maps, perceptrons, attention) take bfloat16 factors;
         // the residual state, the small operators on it and all sums stay float32
  bf16_state  // the same, and on a GPU the state and its gradient are kept in bfloat16 too where all
              // readers and writers of it can do that (in_state_type): half the memory traffic, and
              // what is added to the state is rounded to 8 bits each time
};

const std::vector<std::string>& precision_names();
Precision precision_from(const std::string& name);

struct Execution {
  Form form = Form::fused;
  Precision precision = Precision::fp32;
  StepParameters* parameters = nullptr;  // of the training step under way; null: autograd collects
  bool repeated_for_gradients = false;   // the pass runs again in the backward pass (recompute.h):
                                         // without gradients it takes the forms it will take then
  Explanation* explanation = nullptr;    // where choices of kernels are written down; null: nowhere
};

const Execution& execution();  // of this thread

class ExecutionScope {
 public:
  explicit ExecutionScope(const Execution& wanted);
  explicit ExecutionScope(Form form);            // the rest stays
  explicit ExecutionScope(Precision precision);  // the rest stays
  ~ExecutionScope();
  ExecutionScope(const ExecutionScope&) = delete;
  ExecutionScope& operator=(const ExecutionScope&) = delete;

 private:
  Execution before_;
};

// Whether kernels of ours take x: the form is fused, and x is a float32 or float64 tensor on a CPU, or
// on a GPU in a build that has CUDA. With bfloat16 products, too: the state is float32 all the same, but
// with bf16_state, whose kernels ask KernelChoice::state (kernel_choice.h).
bool runs_cpu_kernel(const Tensor& x);
bool runs_cuda_kernel(const Tensor& x);

// Whether kernels of ours take x as a state that is kept in bfloat16 (Precision::bf16_state).
bool runs_half_state_kernel(const Tensor& x);

// Whether products with x, float32 or bfloat16, take bfloat16 factors on a GPU.
bool runs_half_product(const Tensor& x);

// While it lives, LibTorch's own matrix products start no threads. For a fused step: its kernels
// bring their threads, and a BLAS that keeps its own spinning after a small product slows them
// down. OpenBLAS has one number of threads for the whole process; scopes are counted, and the last
// one to end restores it.
class SerialProducts {
 public:
  SerialProducts();
  ~SerialProducts();
  SerialProducts(const SerialProducts&) = delete;
  SerialProducts& operator=(const SerialProducts&) = delete;

 private:
  std::unique_ptr<kernels::SerialBlas> serial_;  // null unless fused
};

// Whether anything will ask for gradients of a result computed from these.
template <class... Tensors>
bool needs_gradient(const Tensors&... tensors) {
  return torch::GradMode::is_enabled() && ((tensors.defined() && tensors.requires_grad()) || ...);
}

}  // namespace geores
