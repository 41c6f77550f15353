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

  // Around a backward pass: what it gives is in gradients() when the second returns. On a GPU the
  // pass adds to them where its kernels do (ops/sum_room.h) and else fills tensors of its own, which
  // are then copied together: adding to each view would be a hundred kernels.
  void begin_gradients();
  void finish_gradients();

  int64_t size() const { return values_.numel(); }
  int64_t decayed() const { return decayed_; }  // how many leading values belong to rank >= 2

 private:
  Tensor values_, gradients_;
  std::vector<Tensor> parameters_, views_;  // views_[i] is parameters_[i]'s part of gradients_
  int64_t decayed_ = 0;
};

}  // namespace geores
