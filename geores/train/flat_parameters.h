// A model's trainable parameters as views of one flat buffer, and their gradients as views of
// another, so that clipping and the optimiser are one pass over contiguous memory.
// Tensors of rank >= 2 come first: they decay, the rest does not. Manifold parameters stay out.
// The model must already have its final dtype and device, and must not be moved afterwards.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace geores {

using torch::Tensor;

class FlatParameters {
 public:
  FlatParameters(torch::nn::Module& module, const std::vector<Tensor>& left_out = {});

  Tensor& values() { return values_; }
  Tensor& gradients() { return gradients_; }

  // Around a backward pass: what it gives is in gradients() when the second returns. On a GPU some
  // kernels add to them by themselves (ops/sum_room.h), and what autograd gives in tensors of its
  // own is then added together: adding to each view would be a hundred kernels.
  void begin_gradients();
  void finish_gradients();

  // For steps that are recorded: from here on an optimiser's step leaves what the next one begins
  // with, gradients of zero and, if products are in bfloat16 now, the values in that type. Neither
  // takes a pass of its own then. So nobody else may add to the gradients between two steps.
  void keep_ready();
  bool ready() const { return ready_; }
  const Tensor& product_values() const { return product_values_; }  // undefined if not kept

  // Called by whoever has written to values(), or to a parameter: what is kept ready is made anew.
  void values_changed();

  int64_t size() const { return values_.numel(); }
  int64_t decayed() const { return decayed_; }  // how many leading values belong to rank >= 2

 private:
  Tensor values_, gradients_;
  std::vector<Tensor> parameters_, views_;  // views_[i] is parameters_[i]'s part of gradients_
  int64_t decayed_ = 0;
  bool ready_ = false;
  Tensor product_values_;
};

}  // namespace geores
