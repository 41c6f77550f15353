// Precision of the products. "fp32" is float32 throughout. "tf32", on a GPU, lets the float32
// products drop digits of their factors (10 bits of mantissa remain). "bf16", for as long as a
// scope with it lives: the large matrix products of this thread (linear maps, perceptrons,
// attention) run in bfloat16. Everything else, the residual state and the small operators on it
// above all, stays float32. Chosen by operation rather than by autocast, which would take the 4 × 4
// operators too. On a CPU the factors are rounded while a kernel packs them, and tensors stay
// float32.
#pragma once

#include <torch/torch.h>

#include <string>

namespace geores {

using torch::Tensor;

class PrecisionScope {
 public:
  explicit PrecisionScope(const std::string& precision);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  bool before_;
};

bool products_in_bfloat16();

// Whether float32 products on a GPU may use tf32 from now on, in all threads: for any precision but
// "fp32".
void set_float32_products(const std::string& precision);
bool float32_products_in_tf32();

// x as a product takes it: in bfloat16 if that is wanted and x is float32.
Tensor for_product(const Tensor& x);

// The type of activations that are made for a product, beside a state of type `state`.
torch::ScalarType product_type(torch::ScalarType state);

// While it lives, for_product() of a view of `values` (a flat buffer of parameters) is a view of
// one bfloat16 copy, made here at once: a model has a hundred weights, each too small to fill a
// GPU. Or of `copy`, if whoever has the values keeps one. Does nothing in full precision.
class ProductWeights {
 public:
  explicit ProductWeights(const Tensor& values, const Tensor& copy = {});
  ~ProductWeights();
  ProductWeights(const ProductWeights&) = delete;
  ProductWeights& operator=(const ProductWeights&) = delete;

 private:
  Tensor before_values_, before_copy_;
};

}  // namespace geores
