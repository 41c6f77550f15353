#include "geores/ops/run/precision.h"

#include "geores/base/error.h"

namespace geores {
namespace {

thread_local bool in_bfloat16 = false;
thread_local Tensor weights, weights_copy;  // of ProductWeights

// The same part of the copy, if x lies in the weights.
Tensor in_copy(const Tensor& x) {
  if (!weights.defined() || !x.is_contiguous() || x.device() != weights.device()) return {};
  const auto* first = weights.data_ptr<float>();
  const auto* at = x.data_ptr<float>();
  if (at < first || at + x.numel() > first + weights.numel()) return {};
  return weights_copy.slice(0, at - first, at - first + x.numel()).view(x.sizes());
}

}  // namespace

PrecisionScope::PrecisionScope(const std::string& precision) : before_(in_bfloat16) {
  require(precision == "fp32" || precision == "tf32" || precision == "bf16", "precision",
          "must be fp32, tf32 or bf16, got '{}'", precision);
  in_bfloat16 = precision == "bf16";
}

PrecisionScope::~PrecisionScope() { in_bfloat16 = before_; }

void set_float32_products(const std::string& precision) {
  if (float32_products_in_tf32() == (precision != "fp32")) return;  // others may be reading it
  at::globalContext().setFloat32MatmulPrecision(precision == "fp32" ? "highest" : "high");
}

bool float32_products_in_tf32() {
  return at::globalContext().float32MatmulPrecision() != at::Float32MatmulPrecision::HIGHEST;
}

bool products_in_bfloat16() { return in_bfloat16; }

Tensor for_product(const Tensor& x) {
  if (!in_bfloat16 || !x.defined() || x.scalar_type() != torch::kFloat32) return x;
  // A copy has no gradient: it is for operations that bring their own.
  if (!torch::GradMode::is_enabled())
    if (const auto copy = in_copy(x); copy.defined()) return copy;
  return x.to(torch::kBFloat16);
}

torch::ScalarType product_type(torch::ScalarType state) {
  return in_bfloat16 && state == torch::kFloat32 ? torch::kBFloat16 : state;
}

ProductWeights::ProductWeights(const Tensor& values, const Tensor& copy)
    : before_values_(weights), before_copy_(weights_copy) {
  if (!in_bfloat16 || values.scalar_type() != torch::kFloat32) return;
  const torch::NoGradGuard no_grad;
  weights = values.detach();
  weights_copy = copy.defined() ? copy : weights.to(torch::kBFloat16);
}

ProductWeights::~ProductWeights() {
  weights = before_values_;
  weights_copy = before_copy_;
}

}  // namespace geores
