// What the fused operations share: pointers of tensors, and a call per floating-point type.
#pragma once

#include "geores/kernels/device.h"
#include "geores/kernels/norms/norm.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/precision.h"
#include "geores/ops/torch.h"

namespace geores::fused {

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

// f(T(), P()) with P what the factors of products with values of x are rounded to: BFloat16 where
// that is wanted beside float32, else T.
template <class F>
void for_product_types(const Tensor& x, bool in_bfloat16, F&& f) {
  if (in_bfloat16 && x.scalar_type() == torch::kFloat32)
    f(float(), kernels::BFloat16());
  else
    for_type_of(x, [&]<class T>(T) { f(T(), T()); });
}

// In a build with CUDA only: where this thread's work on the GPU goes; a stream for work beside it,
// of lower priority; an event after what a stream has been given so far; and that a stream waits for
// an event, which is then gone.
kernels::CudaStream current_cuda_stream();
kernels::CudaStream make_side_stream();
void destroy_side_stream(kernels::CudaStream stream) noexcept;
kernels::Event record_event(kernels::CudaStream stream);
void wait_for_event(kernels::CudaStream stream, kernels::Event event);
bool gpu_is_hopper();  // the current one: H100, H200

// f(T(), A(), stream) with the types of a state and of the activations beside it.
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

// f(T(), A(), S(), stream), where the state may be bfloat16 itself: S is its type, T that of sums.
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

// f(T(), S(), stream) where there is such a state only.
template <class F>
void on_gpu_state(const Tensor& state, F&& f) {
  on_gpu_state(state, state, [&]<class T, class A, class S>(T, A, S, kernels::CudaStream stream) {
    f(T(), S(), stream);
  });
}

// f(T(), stream) where there is a state only, float32 or float64.
template <class F>
void on_gpu(const Tensor& state, F&& f) {
  if constexpr (kernels::kHasCuda)
    for_type_of(state, [&]<class T>(T) { f(T(), current_cuda_stream()); });
}

// f(A(), stream) for activations by themselves, which may be bfloat16.
template <class F>
void on_gpu_activations(const Tensor& x, F&& f) {
  if constexpr (kernels::kHasCuda) {
    if (x.scalar_type() == torch::kBFloat16)
      f(kernels::BFloat16(), current_cuda_stream());
    else
      on_gpu(x, f);
  }
}

// f(T(), A(), stream...) with the types of a state and of the activations beside it; place is the
// stream on a GPU and nothing on a CPU, as kernels take it:
//   on(x, y, [&]<class T, class A>(T, A, auto... stream) {
//     kernels::some_kernel(stream..., values<T>(x), values<A>(y));
//   });
template <class F>
void on(const Tensor& state, const Tensor& activation, F&& f) {
  if (state.is_cuda())
    on_gpu(state, activation, f);
  else if (state.scalar_type() == torch::kFloat32)
    f(float(), float());
  else
    f(double(), double());
}

template <class F>
void on(const Tensor& state, F&& f) {
  if (state.is_cuda())
    on_gpu(state, f);
  else
    for_type_of(state, f);
}

template <class F>
void on_activations(const Tensor& x, F&& f) {
  if (x.is_cuda())
    on_gpu_activations(x, f);
  else
    for_type_of(x, f);
}

// f(T(), A(), S(), stream...), where the state may be bfloat16 on a GPU.
template <class F>
void on_state(const Tensor& state, const Tensor& activation, F&& f) {
  if (state.is_cuda())
    on_gpu_state(state, activation, f);
  else
    for_type_of(state, [&]<class T>(T) { f(T(), T(), T()); });
}

// Options of tensors in the type of sums over a state.
inline torch::TensorOptions full_options(const Tensor& state) {
  return state.options().dtype(full_type(state.scalar_type()));
}

// Room for activations of this shape that go into a product. On a CPU they stay as they are until
// the product packs them.
inline Tensor for_product_of(const Tensor& state, at::IntArrayRef shape) {
  const auto type = state.scalar_type();
  return torch::empty(shape, state.options().dtype(state.is_cuda() ? product_type(type) : type));
}

// Zeros like x where a gradient is wanted, else undefined: what kernels add to, or leave out.
inline Tensor gradient_if(bool wanted, const Tensor& x) {
  return wanted ? torch::zeros_like(x, torch::MemoryFormat::Contiguous) : Tensor();
}

// The same for gradients that a kernel overwrites.
inline Tensor buffer_if(bool wanted, const Tensor& x) {
  return wanted ? torch::empty_like(x, torch::MemoryFormat::Contiguous) : Tensor();
}

}  // namespace geores::fused
