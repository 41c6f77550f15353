#include "geores/ops/run/precision.h"

#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/on_gpu.h"

namespace geores {

bool products_in_bfloat16() {
  const auto precision = execution().precision;
  return precision == Precision::bf16 || precision == Precision::bf16_state;
}

Tensor for_product(const Tensor& x) {
  if (!products_in_bfloat16() || !x.defined() || x.scalar_type() != torch::kFloat32) return x;
  // A copy has no gradient: it is for operations with their own backward pass.
  if (const auto* parameters = execution().parameters;
      parameters != nullptr && !torch::GradMode::is_enabled())
    if (const auto copy = parameters->product_copy(x); copy.defined()) return copy;
  return x.to(torch::kBFloat16);
}

torch::ScalarType product_type(torch::ScalarType state) {
  return products_in_bfloat16() && state == torch::kFloat32 ? torch::kBFloat16 : state;
}

Tensor in_state_type(const Tensor& x) {
  const bool rounds = execution().precision == Precision::bf16_state && x.defined() && on_gpu(x) &&
                      x.scalar_type() == torch::kFloat32;
  return rounds ? x.to(torch::kBFloat16) : x;
}

Tensor in_full_type(const Tensor& x) { return x.defined() ? x.to(full_type(x.scalar_type())) : x; }

torch::ScalarType full_type(torch::ScalarType state) {
  return state == torch::kBFloat16 ? torch::kFloat32 : state;
}

void set_float32_products(Precision precision) {
  const bool tf32 = precision != Precision::fp32;
  if (float32_products_in_tf32() == tf32)
    return;  // written only on a change, because other threads read it
  at::globalContext().setFloat32MatmulPrecision(tf32 ? "high" : "highest");
}

bool float32_products_in_tf32() {
  return at::globalContext().float32MatmulPrecision() != at::Float32MatmulPrecision::HIGHEST;
}

}  // namespace geores
