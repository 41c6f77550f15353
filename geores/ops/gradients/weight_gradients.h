// Gradients of weights on a GPU, beside the backward pass: nothing waits for dyᵀ x until the
// optimiser does. Products are collected, and a few at a time run as one kernel on a stream of
// their own, adding to where the gradients belong.
#pragma once

#include <torch/custom_class.h>
#include <torch/torch.h>

#include <functional>
#include <vector>

#include "geores/kernels/device.h"

namespace geores {

using torch::Tensor;

class WeightGradients : public torch::CustomClassHolder {
 public:
  WeightGradients();  // in the thread of the forward pass: another may go back
  ~WeightGradients() override;

  static bool fit(const Tensor& dy, const Tensor& x);

  // sum (out, in) += dyᵀ x, float32 += bfloat16; dy (rows, out), x (rows, in), contiguous.
  void add(const Tensor& dy, const Tensor& x, const Tensor& sum);

  // f(stream), after what was added so far; `used` stay until it is done.
  void then(std::function<void(kernels::Stream)> f, std::vector<Tensor> used);

  // The same after all that is added before finish().
  void at_end(std::function<void(kernels::Stream)> f, std::vector<Tensor> used);

  // All of it is done for what follows on the current stream.
  void finish();

  // After a pass that did not come to its end: nothing is held any more. (What is collected may
  // hold the graph that holds this.)
  void drop() noexcept;

 private:
  struct Product {
    Tensor dy, x, sum;
  };
  struct Last {
    std::function<void(kernels::Stream)> f;
    std::vector<Tensor> used;
  };
  struct Batch {
    std::vector<Product> products;
    std::vector<std::function<void(kernels::Stream)>> after;
    std::vector<Tensor> used;
    kernels::Event done = nullptr;
  };

  void run();     // what is collected
  void let_go();  // of what the batch before has used, once it is done
  kernels::Stream side_ = nullptr;
  Batch collected_, running_;
  std::vector<Last> last_;
};

// For operations with a backward pass: it finds who takes products (or null) where the forward pass
// has kept it.
void keep(torch::autograd::AutogradContext* context,
          const c10::intrusive_ptr<WeightGradients>& kept);
WeightGradients* kept_in(torch::autograd::AutogradContext* context);

// dyᵀ x in `type`; nothing where it is added to `place` instead.
Tensor weight_gradient(torch::autograd::AutogradContext* context, const Tensor& dy, const Tensor& x,
                       const Tensor& place, torch::ScalarType type);

}  // namespace geores
