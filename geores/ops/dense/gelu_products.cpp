#include "geores/kernels/dense/gelu_products.h"

#include "geores/kernels/dense/linear.h"
#include "geores/ops/dense/products.h"
#include "geores/ops/run/dispatch.h"

namespace geores {
namespace {

using namespace fused;
using Half = kernels::BFloat16;

// Whether a kernel exists for x (rows, depth) times w, to or from `columns` hidden units. Weights
// may start anywhere in a flat buffer.
bool fits_gelu_products(const Tensor& x, const Tensor& w, int64_t columns) {
  [[maybe_unused]] const auto aligned = [](const Tensor& t) {
    return reinterpret_cast<uintptr_t>(t.data_ptr()) % 16 == 0;
  };
  if constexpr (kernels::kHasCuda)
    return x.scalar_type() == torch::kBFloat16 && x.size(0) > 0 && aligned(x) && aligned(w) &&
           kernels::has_gelu_products(x.size(1), columns);
  else
    return false;
}

kernels::GeluProductShape shape(const Tensor& x, const Tensor& hidden) {
  return {.rows = x.size(0), .depth = x.size(1), .columns = hidden.size(1)};
}

}  // namespace

HiddenAndActive product_and_gelu(const Tensor& x, const Tensor& w1) {
  if (fits_gelu_products(x, w1, w1.size(0))) {
    const auto hidden = torch::empty({x.size(0), w1.size(0)}, x.options());
    const auto active = torch::empty_like(hidden);
    if constexpr (kernels::kHasCuda)
      kernels::product_and_gelu(current_cuda_stream(), values<Half>(x), values<Half>(w1),
                                values<Half>(hidden), values<Half>(active), shape(x, hidden));
    return {hidden, active};
  }
  const auto hidden = at::mm(x, w1.t());
  const auto active = torch::empty_like(hidden);
  on_gpu_activations(hidden, [&]<class A>(A, kernels::CudaStream stream) {
    kernels::gelu_forward(stream, values<A>(hidden), values<A>(active), hidden.numel());
  });
  return {hidden, active};
}

Tensor product_and_gelu_slope(const Tensor& dy, const Tensor& w2, const Tensor& hidden) {
  if (fits_gelu_products(dy, w2, w2.size(1))) {
    const auto dhidden = torch::empty_like(hidden);
    if constexpr (kernels::kHasCuda)
      kernels::product_and_gelu_slope(current_cuda_stream(), values<Half>(dy), values<Half>(w2),
                                      values<Half>(hidden), values<Half>(dhidden),
                                      shape(dy, hidden));
    return dhidden;
  }
  const auto dhidden = at::mm(dy, w2);
  on_gpu_activations(hidden, [&]<class A>(A, kernels::CudaStream stream) {
    kernels::gelu_backward(stream, values<A>(hidden), values<A>(dhidden), values<A>(dhidden),
                           hidden.numel());
  });
  return dhidden;
}

}  // namespace geores
