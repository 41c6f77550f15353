#include "geores/ops/run/execution.h"

#include <algorithm>
#include <utility>

#include "geores/base/error.h"
#include "geores/kernels/device.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/run/precision.h"

namespace geores {
namespace {

thread_local Execution current;  // set by ExecutionScope alone

bool is_real(const Tensor& x) {
  return x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64;
}

}  // namespace

const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> names = {"fp32", "tf32", "bf16", "bf16_state"};
  return names;
}

Precision precision_from(const std::string& name) {
  const auto& names = precision_names();
  const auto found = std::find(names.begin(), names.end(), name);
  require(found != names.end(), "precision", "must be fp32, tf32, bf16 or bf16_state, got '{}'",
          name);
  return static_cast<Precision>(found - names.begin());
}

const Execution& execution() { return current; }

ExecutionScope::ExecutionScope(const Execution& wanted) : before_(std::exchange(current, wanted)) {}
ExecutionScope::ExecutionScope(Form form) : before_(current) { current.form = form; }
ExecutionScope::ExecutionScope(Precision precision) : before_(current) {
  current.precision = precision;
}
ExecutionScope::~ExecutionScope() { current = before_; }

bool runs_cpu_kernel(const Tensor& x) {
  return current.form == Form::fused && x.device().is_cpu() && !on_gpu(x) && is_real(x);
}

bool runs_cuda_kernel(const Tensor& x) {
  return kernels::kHasCuda && current.form == Form::fused && on_gpu(x) && is_real(x);
}

bool runs_half_state_kernel(const Tensor& x) {
  return kernels::kHasCuda && current.form == Form::fused && on_gpu(x) &&
         x.scalar_type() == torch::kBFloat16;
}

bool runs_half_product(const Tensor& x) {
  return kernels::kHasCuda && current.form == Form::fused && products_in_bfloat16() && on_gpu(x) &&
         (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kBFloat16);
}

SerialProducts::SerialProducts()
    : serial_(current.form == Form::fused ? std::make_unique<kernels::SerialBlas>() : nullptr) {}

SerialProducts::~SerialProducts() = default;

}  // namespace geores
