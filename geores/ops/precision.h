// Mixed precision: for as long as a scope with "bf16" lives, the large matrix products of this
// thread (linear maps, perceptrons, attention) run in bfloat16 and give back float32. Everything
// else, the residual state and the small operators on it above all, stays as it is. "fp32" does
// nothing. Chosen by operation rather than by autocast, which would take the 4 × 4 operators too.
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

// x as a product takes it: in bfloat16 if that is wanted and x is float32.
Tensor for_product(const Tensor& x);

}  // namespace geores
