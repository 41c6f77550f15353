// What the fused operations share: pointers of tensors, and a call per floating-point type.
#pragma once

#include <torch/torch.h>

#include "geores/kernels/norm.h"
#include "geores/ops/implementation.h"

namespace geores::fused {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// Values of a contiguous tensor; null for an undefined one.
template <class T>
T* values(const Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<T>() : nullptr;
}

// Row statistics are kept as pairs in a tensor (rows, 2).
template <class T>
kernels::RowStatistics<T>* statistics_in(const Tensor& tensor) {
  return reinterpret_cast<kernels::RowStatistics<T>*>(values<T>(tensor));
}

inline Tensor contiguous(const Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : tensor;
}

// An undefined tensor is not an argument that autograd accepts: it wants an empty optional.
using OptionalTensor = c10::optional<Tensor>;
inline OptionalTensor maybe(const Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : OptionalTensor();
}
inline Tensor contiguous(const OptionalTensor& tensor) {
  return tensor.has_value() ? tensor->contiguous() : Tensor();
}

// f(T()) with T the type of x.
template <class F>
void for_type_of(const Tensor& x, F&& f) {
  if (x.scalar_type() == torch::kFloat32)
    f(float());
  else
    f(double());
}

// Zeros like x where a gradient is wanted, else undefined: what kernels add to, or leave out.
inline Tensor gradient_if(bool wanted, const Tensor& x) {
  return wanted ? torch::zeros_like(x, torch::MemoryFormat::Contiguous) : Tensor();
}

// The same for gradients that a kernel overwrites.
inline Tensor room_if(bool wanted, const Tensor& x) {
  return wanted ? torch::empty_like(x, torch::MemoryFormat::Contiguous) : Tensor();
}

}  // namespace geores::fused
