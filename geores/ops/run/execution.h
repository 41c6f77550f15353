// How operations run: in which form, in which precision, and which object collects the gradients of
// a training step. This scope is the only execution state outside of arguments, and each thread has
// its own:
//   {
//     const ExecutionScope scope(Form::composed);
//     y = model->forward(x, trace);   // plain LibTorch
//   }
// A backward pass uses the settings of its forward pass, which are kept with the graph: on a GPU it
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
  fused,     // kernels with a hand-written backward pass where they exist, composed elsewhere
  composed,  // LibTorch operations everywhere: the definition
  stock      // composed like the papers' own code: Cayley by a linear solve, Sinkhorn unrolled
};

enum class Precision {
  fp32,  // float32 throughout
  tf32,  // float32 products on a GPU use tf32 (10 bits of mantissa)
  bf16,  // as tf32, and large products (linear maps, perceptrons, attention) take bfloat16 factors;
         // the residual state, the small operators on it and all sums stay float32
  bf16_state  // the same, and on a GPU the state and its gradient are kept in bfloat16 too where all
              // readers and writers of it can do that (in_state_type): half the memory traffic, and
              // each addition to the state is rounded to 8 bits
};

const std::vector<std::string>& precision_names();
Precision precision_from(const std::string& name);

struct Execution {
  Form form = Form::fused;
  Precision precision = Precision::fp32;
  StepParameters* parameters =
      nullptr;  // of this thread's training step; null: autograd collects the gradients
  bool repeated_for_gradients = false;  // the pass runs again in the backward pass (recompute.h):
                                        // without gradients it takes the forms it will take then
  Explanation* explanation = nullptr;   // records the choices of kernels; null: not recorded
};

const Execution& execution();  // of this thread

class ExecutionScope {
 public:
  explicit ExecutionScope(const Execution& wanted);
  explicit ExecutionScope(Form form);            // the other settings stay
  explicit ExecutionScope(Precision precision);  // the other settings stay
  ~ExecutionScope();
  ExecutionScope(const ExecutionScope&) = delete;
  ExecutionScope& operator=(const ExecutionScope&) = delete;

 private:
  Execution before_;
};

// Whether our kernels support x: the form is fused, and x is a float32 or float64 tensor on a CPU,
// or on a GPU in a build with CUDA. The state stays float32 with bfloat16 products too; only
// bf16_state differs, and its kernels use KernelChoice::state (kernel_choice.h).
bool runs_cpu_kernel(const Tensor& x);
bool runs_cuda_kernel(const Tensor& x);

// Whether our kernels support x as a bfloat16 state (Precision::bf16_state).
bool runs_half_state_kernel(const Tensor& x);

// Whether products with x, float32 or bfloat16, use bfloat16 factors on a GPU.
bool runs_half_product(const Tensor& x);

// While it lives, LibTorch's own matrix products start no threads. For a fused step: its kernels
// have their own threads, and a BLAS whose threads spin after a small product slows them down.
// OpenBLAS has one number of threads for the whole process; scopes are counted, and the last one to
// end restores it.
class SerialProducts {
 public:
  SerialProducts();
  ~SerialProducts();
  SerialProducts(const SerialProducts&) = delete;
  SerialProducts& operator=(const SerialProducts&) = delete;

 private:
  std::unique_ptr<kernels::SerialBlas> serial_;  // null unless fused
};

// Whether a result computed from these tensors needs gradients.
template <class... Tensors>
bool needs_gradient(const Tensors&... tensors) {
  return torch::GradMode::is_enabled() && ((tensors.defined() && tensors.requires_grad()) || ...);
}

}  // namespace geores
