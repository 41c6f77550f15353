// Looks up the parameters of a training step: the copy of each that products use, and the slot in
// one flat buffer that holds its gradient. On a GPU backward kernels add to that slot themselves,
// and autograd gets no gradient for the parameter: clearing and adding a hundred small tensors
// costs as much as the kernels. On a CPU there are no slots: autograd adds to the flat buffer.
//
// A parameter with a hook has no slot, and autograd carries its gradient as in plain LibTorch. A
// parameter that is used several times accumulates all its gradients in one slot.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "geores/ops/gradients/weight_gradients.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

class StepParameters {
 public:
  // The parameters are views of one flat buffer, one after the other; `gradients` has the same
  // layout.
  StepParameters(const std::vector<Tensor>& parameters, const Tensor& gradients);

  // From here on products use parts of `copy`, the flat values in the type of products; undefined:
  // they convert parameters one by one.
  void set_product_values(const Tensor& copy) { product_values_ = copy; }

  // The copy of a parameter (or of a contiguous part of one) for products; undefined without a
  // copy.
  Tensor product_copy(const Tensor& x) const;

  // One forward and backward pass. When end_pass() returns, work on the current CUDA stream sees
  // the results of the side stream. drop_pass() discards them after a pass that failed.
  void begin_pass();
  void end_pass();
  void drop_pass() noexcept;

  // Operations call the functions below in their forward pass, for the backward pass that follows.
  // All results are undefined or null outside of a pass and on a CPU.

  // The slot for the gradient of a parameter, or of a contiguous part of one.
  Tensor gradient_slot(const Tensor& x) const;

  // Creates a slot for the gradient of a tensor that the forward pass computed from parameters:
  // zeros in the type of the parameters, which gradient_slot(x) returns from here on. The caller
  // propagates the slot's gradient to the parameters. x must stay alive while operations use it.
  Tensor make_gradient_slot(const Tensor& x);

  // Zeros of this shape, cleared together with all others; undefined if `like` has another type or
  // device than the parameters.
  Tensor take_zeros(at::IntArrayRef shape, const Tensor& like);

  c10::intrusive_ptr<WeightGradients> weight_gradients() const;

  // Whether this tensor has a gradient hook.
  static bool has_hook(const Tensor& parameter);

 private:
  struct Part {
    int64_t begin;  // offset in the flat buffers
    bool hooked;
  };
  // The flat offset of a parameter or of a contiguous part of one; null for other tensors.
  const Part* find(const Tensor& x, int64_t& begin) const;
  bool in_pass() const { return pass_ && on_gpu(gradients_); }

  std::vector<Tensor> parameters_;
  Tensor gradients_, product_values_;
  std::unordered_map<const c10::TensorImpl*, Part> parts_;
  c10::intrusive_ptr<WeightGradients> weight_gradients_;

  bool pass_ = false;
  Tensor zeros_;  // of this pass, allocated on first use
  int64_t zeros_used_ = 0;
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Made {
    WeakTensor tensor;
    Tensor slot;
  };
  std::vector<Made> made_;  // tensors computed from parameters in this pass
};

// The same for the current step of this thread (Execution::parameters); undefined without one.
Tensor gradient_slot(const Tensor& x);
Tensor make_gradient_slot(const Tensor& x);
Tensor take_zeros(at::IntArrayRef shape, const Tensor& like);
c10::intrusive_ptr<WeightGradients> weight_gradients();

// For a backward pass that has looked up the slot: the tensor to add to (the slot, or new zeros)
// and the gradient for autograd (undefined, or those zeros).
struct ParameterSum {
  Tensor sum, gradient;
};
ParameterSum parameter_sum(const Tensor& parameter, const Tensor& slot);

}  // namespace geores
