// What a training step knows of its parameters, each resolved once: the copy that products take, and
// the place in one flat buffer where its gradient belongs. On a GPU backward kernels add to that place
// themselves, and autograd gets nothing for the parameter: clearing and adding a hundred small tensors
// costs as much as the kernels. On a CPU there are no places: autograd adds to the flat buffer.
//
// A parameter has no place, and autograd carries its gradient as in plain LibTorch, while it has a
// hook. One that is used several times, in one operation or in many, is added to several times.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "geores/ops/gradients/weight_gradients.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

class StepParameters {
 public:
  // The parameters are views of one flat buffer, one after the other, and their gradients belong at
  // the same places of `gradients`.
  StepParameters(const std::vector<Tensor>& parameters, const Tensor& gradients);

  // From here on products take parts of `copy`, the flat values in the type of products; undefined:
  // they convert parameters one by one.
  void set_product_values(const Tensor& copy) { product_values_ = copy; }

  // x as products take it, for a parameter (or a contiguous part of one); undefined without a copy.
  Tensor product_copy(const Tensor& x) const;

  // One forward and backward pass. What the backward kernels left to be done on the side has been done
  // for what follows on the current CUDA stream when end_pass() returns; drop_pass() forgets it, after
  // a pass that failed.
  void begin_pass();
  void end_pass();
  void drop_pass() noexcept;

  // The rest is asked by operations in their forward pass, for the backward pass that follows. All of
  // it is undefined or null outside of a pass and on a CPU.

  // Where the gradient of x is to be added, for a parameter or a contiguous part of one.
  Tensor gradient_slot(const Tensor& x) const;

  // A place for the gradient of a tensor that the forward pass made of parameters: zeros in the type of
  // the parameters, and gradient_slot(x) from here on. The caller takes what is added there on to the
  // parameters. x stays alive as long as operations may ask.
  Tensor make_gradient_slot(const Tensor& x);

  // Zeros of this shape, cleared together with all others; undefined if `like` has another type or
  // device than the parameters.
  Tensor take_zeros(at::IntArrayRef shape, const Tensor& like);

  c10::intrusive_ptr<WeightGradients> weight_gradients() const;

  // Whether a hook waits for this tensor's gradient.
  static bool has_hook(const Tensor& parameter);

 private:
  struct Part {
    int64_t begin;  // in the flat buffers
    bool hooked;
  };
  // The flat position of x, for a parameter or a contiguous part of one; null: it is neither.
  const Part* find(const Tensor& x, int64_t& begin) const;
  bool in_pass() const { return pass_ && gradients_.is_cuda(); }

  std::vector<Tensor> parameters_;
  Tensor gradients_, product_values_;
  std::unordered_map<const c10::TensorImpl*, Part> parts_;
  c10::intrusive_ptr<WeightGradients> weight_gradients_;

  bool pass_ = false;
  Tensor zeros_;  // of this pass, made when they are first asked for
  int64_t zeros_used_ = 0;
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Made {
    WeakTensor tensor;
    Tensor slot;
  };
  std::vector<Made> made_;  // of parameters, in this pass
};

// The same for the step under way in this thread (Execution::parameters); undefined without one.
Tensor gradient_slot(const Tensor& x);
Tensor make_gradient_slot(const Tensor& x);
Tensor take_zeros(at::IntArrayRef shape, const Tensor& like);
c10::intrusive_ptr<WeightGradients> weight_gradients();

// For a backward pass that has asked for the place: what to add to, zeros where there was none, and
// what autograd gets, nothing where there was one.
struct ParameterSum {
  Tensor sum, gradient;
};
ParameterSum parameter_sum(const Tensor& parameter, const Tensor& slot);

}  // namespace geores
