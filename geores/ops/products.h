// Matrix products whose operands and result may differ in type: for operations with a backward of
// their own.
#pragma once

#include <torch/torch.h>

namespace geores {

// a b with the result in `type`: float32 sums of bfloat16 products are not rounded again where
// LibTorch can leave that out (2.8 and later).
template <class Matrix>
torch::Tensor multiply(const Matrix& a, const Matrix& b, torch::ScalarType type) {
  if (a.scalar_type() == type) return at::mm(a, b);
  if constexpr (requires { at::mm(a, b, type); })
    return at::mm(a, b, type);
  else
    return at::mm(a, b).to(type);
}

// dy (rows, columns) in `type`, and its sum over rows in its own: what a product's factors and its
// bias need of a gradient. On a GPU one pass.
struct ConvertedAndSummed {
  torch::Tensor converted, sum;
};
ConvertedAndSummed converted_and_summed(const torch::Tensor& dy, torch::ScalarType type);

}  // namespace geores
