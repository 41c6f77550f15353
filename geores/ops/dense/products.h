// Matrix products whose operands and result may differ in type, for operations with their own
// backward pass.
#pragma once

#include <torch/version.h>

#include "geores/ops/run/on_gpu.h"
#include "geores/ops/torch.h"

namespace geores {

// a b with the result in `type`: float32 sums of bfloat16 products are not rounded again where
// LibTorch supports that (on a GPU, 2.8 and later).
template <class Matrix>
torch::Tensor multiply(const Matrix& a, const Matrix& b, torch::ScalarType type) {
  if (a.scalar_type() == type) return at::mm(a, b);
  if constexpr (requires { at::mm(a, b, type); })
    if (on_gpu(a) && !kernels::kEmulated) return at::mm(a, b, type);
  if (kernels::kEmulated) return at::mm(a.to(type), b.to(type));
  return at::mm(a, b).to(type);
}

// Whether LibTorch's product adds bfloat16 products to a float32 sum: 2.8 and 2.9 have the
// function, but require a bfloat16 sum.
inline constexpr bool kProductsAddToFloat = TORCH_VERSION_MAJOR > 2 ||
                                            (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 10);

// sum += a b; the product is not stored separately where LibTorch can add to sums of this type.
template <class Matrix>
void add_product(const Matrix& a, const Matrix& b, Matrix& sum) {
  const auto type = sum.scalar_type();
  if (a.scalar_type() == type) {
    at::addmm_out(sum, sum, a, b);
    return;
  }
  if constexpr (requires { at::addmm_out(sum, sum, a, b, type); })
    if (kProductsAddToFloat && on_gpu(sum) && !kernels::kEmulated) {
      at::addmm_out(sum, sum, a, b, type);
      return;
    }
  sum.add_(multiply(a, b, type));
}

// dy (rows, columns) in `type`, as a product's factor; its sum over rows is added to `sum`, for the
// bias. One pass on a GPU.
torch::Tensor converted_and_summed(const torch::Tensor& dy, torch::ScalarType type,
                                   const torch::Tensor& sum);

// The products of a perceptron fused with GELU, on a GPU, where both have a kernel: x W1ᵀ with its
// GELU, and (dy W2) ⊙ GELU'(hidden) in the backward pass.
struct HiddenAndActive {
  torch::Tensor hidden, active;
};
HiddenAndActive product_and_gelu(const torch::Tensor& x, const torch::Tensor& w1);
torch::Tensor product_and_gelu_slope(const torch::Tensor& dy, const torch::Tensor& w2,
                                     const torch::Tensor& hidden);

}  // namespace geores
