// Weight gradients on a GPU, concurrent with the backward pass: only the optimiser waits for dyᵀ x.
// Products are collected, and several at a time run as one kernel on a separate stream, which adds
// them to their slots.
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

  // Runs f(stream) after the sums that were added so far; `used` stay alive until it is done.
  void then(std::function<void(kernels::CudaStream)> f, std::vector<Tensor> used);

  // The same after all sums that are added before finish().
  void at_end(std::function<void(kernels::CudaStream)> f, std::vector<Tensor> used);

  // Makes the current stream wait for all of it.
  void finish();

  // Drops pending work after a failed pass. (The collected work may reference the graph that owns
  // this object.)
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

  void run();     // runs the collected products
  void let_go();  // releases the tensors of the previous batch once it is done
  kernels::CudaStream side_ = nullptr;
  Batch collected_, running_;
  std::vector<Last> last_;
};

// The gradient of a weight, kept from the operation's forward to its backward pass.
struct WeightGradient {
  Tensor slot;                                // undefined: autograd carries the gradient
  c10::intrusive_ptr<WeightGradients> taker;  // null outside of a training step on a GPU

  // Called in the forward pass.
  static WeightGradient of(const Tensor& weight);

  // Called in the backward pass: dyᵀ x in `type` for autograd, or undefined if it is added to the
  // slot, on the side stream or, for a large weight, by its product.
  Tensor from(const Tensor& dy, const Tensor& x, torch::ScalarType type) const;
};

// Called in the backward pass: a b in `type` for autograd, or undefined if it is added to a large
// weight's slot (undefined: no slot).
Tensor slot_product(const Tensor& a, const Tensor& b, torch::ScalarType type, const Tensor& slot);

}  // namespace geores
