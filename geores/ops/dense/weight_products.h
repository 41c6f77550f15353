// Products of weights with weights, for products with activations to take: a connection's linear
// maps, folded into those of the sublayer between them.
#pragma once

#include <torch/torch.h>

#include <utility>
#include <vector>

namespace geores {

using torch::Tensor;

// a b of two matrices of parameters.
Tensor weight_product(const Tensor& a, const Tensor& b);

// On a GPU in bfloat16 such a product is too small to be a kernel. While this lives, those of these
// factors are there already for its thread's weight_product(), made at once; so are their gradients
// where a SumRoom has places for those of the factors. Elsewhere it does nothing.
class WeightProducts {
 public:
  using Factors = std::vector<std::pair<Tensor, Tensor>>;
  explicit WeightProducts(const Factors& factors);
  ~WeightProducts();
  WeightProducts(const WeightProducts&) = delete;
  WeightProducts& operator=(const WeightProducts&) = delete;

 private:
  struct Made {
    Tensor a, b, product;
  };
  static std::vector<Made> make(const Factors& factors);
  friend Tensor weight_product(const Tensor& a, const Tensor& b);

  static thread_local std::vector<Made> made_;
  std::vector<Made> before_;
};

}  // namespace geores
