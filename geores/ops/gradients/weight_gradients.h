// Gradients of weights on a GPU, beside the backward pass: nothing waits for dyᵀ x until the
// optimiser does. Products are collected, and a few at a time run as one kernel on a stream of
// their own, adding to where the gradients belong.
#pragma once

#include <torch/custom_class.h>

#include <functional>
#include <vector>

#include "geores/kernels/device.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

class WeightGradients : public torch::CustomClassHolder {
 public:
  WeightGradients();
  ~WeightGradients() override;

  static bool fit(const Tensor& dy, const Tensor& x);

  // sum (out, in) += dyᵀ x, float32 += bfloat16; dy (rows, out), x (rows, in), contiguous.
  void add(const Tensor& dy, const Tensor& x, const Tensor& sum);

  // f(stream), after what was added so far; `used` stay until it is done.
  void then(std::function<void(kernels::CudaStream)> f, std::vector<Tensor> used);

  // The same after all that is added before finish().
  void at_end(std::function<void(kernels::CudaStream)> f, std::vector<Tensor> used);

  // All of it is done for what follows on the current stream.
  void finish();

  // Drops pending work after a failed pass. (What is collected may hold the graph that holds this.)
  void drop() noexcept;

 private:
  struct Product {
    Tensor dy, x, sum;
  };
  struct Last {
    std::function<void(kernels::CudaStream)> f;
    std::vector<Tensor> used;
  };
  struct Batch {
    std::vector<Product> products;
    std::vector<std::function<void(kernels::CudaStream)>> after;
    std::vector<Tensor> used;
    kernels::Event done = nullptr;
  };

  void run();     // what is collected
  void let_go();  // of what the batch before has used, once it is done
  kernels::CudaStream side_ = nullptr;
  Batch collected_, running_;
  std::vector<Last> last_;
};

// The gradient of a weight that an operation multiplies with, from its forward to its backward pass.
struct WeightGradient {
  Tensor slot;                                // undefined: autograd gets the gradient
  c10::intrusive_ptr<WeightGradients> taker;  // null outside of a training step on a GPU

  // For weight, in the forward pass.
  static WeightGradient of(const Tensor& weight);

  // In the backward pass: dyᵀ x in `type` for autograd, or undefined where it is added to the place,
  // on the side or, for a large weight, by its product.
  Tensor from(const Tensor& dy, const Tensor& x, torch::ScalarType type) const;
};

// a b in `type` for autograd, or undefined where it is added to the place of a large weight's
// gradient (undefined: it has none), in the backward pass.
Tensor slot_product(const Tensor& a, const Tensor& b, torch::ScalarType type, const Tensor& slot);

}  // namespace geores
