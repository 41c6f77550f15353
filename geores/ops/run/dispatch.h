// Shared by the fused operations: pointers of tensors, and dispatch on floating-point types.
#pragma once

#include "geores/kernels/device.h"
#include "geores/kernels/norms/norm.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/torch.h"

namespace geores::fused {

using geores::on_gpu;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// Values of a contiguous tensor; null for an undefined one.
template <class T>
T* values(const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  if constexpr (std::is_same_v<T, kernels::BFloat16>)
    return reinterpret_cast<T*>(tensor.data_ptr<at::BFloat16>());
  else
    return tensor.data_ptr<T>();
}

// Row statistics are kept as pairs in a tensor (rows, 2).
template <class T>
kernels::RowStatistics<T>* statistics_in(const Tensor& tensor) {
  return reinterpret_cast<kernels::RowStatistics<T>*>(values<T>(tensor));
}

inline Tensor contiguous(const Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : tensor;
}

// Autograd does not accept an undefined tensor as argument; it requires an empty optional.
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

// f(T(), P()) with P the type to which factors of products with values of x are rounded: BFloat16
// if requested and x is float32, else T.
template <class F>
void for_product_types(const Tensor& x, bool in_bfloat16, F&& f) {
  if (in_bfloat16 && x.scalar_type() == torch::kFloat32)
    f(float(), kernels::BFloat16());
  else
    for_type_of(x, [&]<class T>(T) { f(T(), T()); });
}

// Only in a build with CUDA: this thread's CUDA stream; a side stream of lower priority; an event
// after the current work of a stream; a wait of a stream for an event, which is then destroyed.
kernels::CudaStream current_cuda_stream();
kernels::CudaStream make_side_stream();
void destroy_side_stream(kernels::CudaStream stream) noexcept;
kernels::Event record_event(kernels::CudaStream stream);
void wait_for_event(kernels::CudaStream stream, kernels::Event event);
bool gpu_is_hopper();  // the current GPU: H100, H200

// f(T(), A(), stream) with the types of a state and of its activations.
template <class F>
void on_gpu(const Tensor& state, const Tensor& activation, F&& f) {
  if constexpr (kernels::kHasCuda) {
    if (state.scalar_type() == torch::kFloat64)
      f(double(), double(), current_cuda_stream());
    else if (activation.scalar_type() == torch::kBFloat16)
      f(float(), kernels::BFloat16(), current_cuda_stream());
    else
      f(float(), float(), current_cuda_stream());
  }
}

// f(T(), A(), S(), stream), where the state may be bfloat16: S is its type, T that of sums.
template <class F>
void on_gpu_state(const Tensor& state, const Tensor& activation, F&& f) {
  using kernels::BFloat16;
  if constexpr (kernels::kHasCuda) {
    if (state.scalar_type() == torch::kBFloat16)
      f(float(), BFloat16(), BFloat16(), current_cuda_stream());
    else
      on_gpu(state, activation,
             [&]<class T, class A>(T, A, kernels::CudaStream stream) { f(T(), A(), T(), stream); });
  }
}

// f(T(), S(), stream) for a state only.
template <class F>
void on_gpu_state(const Tensor& state, F&& f) {
  on_gpu_state(state, state, [&]<class T, class A, class S>(T, A, S, kernels::CudaStream stream) {
    f(T(), S(), stream);
  });
}

// f(T(), stream) for a float32 or float64 state only.
template <class F>
void on_gpu(const Tensor& state, F&& f) {
  if constexpr (kernels::kHasCuda)
    for_type_of(state, [&]<class T>(T) { f(T(), current_cuda_stream()); });
}

// f(A(), stream) for activations only, which may be bfloat16.
template <class F>
void on_gpu_activations(const Tensor& x, F&& f) {
  if constexpr (kernels::kHasCuda) {
    if (x.scalar_type() == torch::kBFloat16)
      f(kernels::BFloat16(), current_cuda_stream());
    else
      on_gpu(x, f);
  }
}

// f(T(), A(), stream...) with the types of a state and of its activations; `stream` is the CUDA
// stream on a GPU and empty on a CPU, like the kernels' overloads:
//   on(x, y, [&]<class T, class A>(T, A, auto... stream) {
//     kernels::some_kernel(stream..., values<T>(x), values<A>(y));
//   });
template <class F>
void on(const Tensor& state, const Tensor& activation, F&& f) {
  if (on_gpu(state))
    on_gpu(state, activation, f);
  else if (state.scalar_type() == torch::kFloat32)
    f(float(), float());
  else
    f(double(), double());
}

template <class F>
void on(const Tensor& state, F&& f) {
  if (on_gpu(state))
    on_gpu(state, f);
  else
    for_type_of(state, f);
}

template <class F>
void on_activations(const Tensor& x, F&& f) {
  if (on_gpu(x))
    on_gpu_activations(x, f);
  else
    for_type_of(x, f);
}

// f(T(), A(), S(), stream...), where the state may be bfloat16 on a GPU.
template <class F>
void on_state(const Tensor& state, const Tensor& activation, F&& f) {
  if (on_gpu(state))
    on_gpu_state(state, activation, f);
  else
    for_type_of(state, [&]<class T>(T) { f(T(), T(), T()); });
}

// Options for tensors in the type of sums over a state.
inline torch::TensorOptions full_options(const Tensor& state) {
  return state.options().dtype(full_type(state.scalar_type()));
}

// A buffer for activations of this shape that are a product's factor. On a CPU they keep their type
// until the product packs them.
inline Tensor for_product_of(const Tensor& state, at::IntArrayRef shape) {
  const auto type = state.scalar_type();
  return torch::empty(shape, state.options().dtype(on_gpu(state) ? product_type(type) : type));
}

// Zeros like x if a gradient is needed, else undefined; kernels add to it.
inline Tensor gradient_if(bool wanted, const Tensor& x) {
  return wanted ? torch::zeros_like(x, torch::MemoryFormat::Contiguous) : Tensor();
}

// The same for gradients that a kernel overwrites: uninitialised.
inline Tensor buffer_if(bool wanted, const Tensor& x) {
  return wanted ? torch::empty_like(x, torch::MemoryFormat::Contiguous) : Tensor();
}

}  // namespace geores::fused
