#include "geores/ops/implementation.h"

#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include <atomic>

namespace geores {
namespace {

std::atomic<Implementation> current = Implementation::fused;

bool mixed_precision() {
#if TORCH_VERSION_MAJOR >= 2 && TORCH_VERSION_MINOR >= 4
  return at::autocast::is_autocast_enabled(torch::kCPU);
#else
  return at::autocast::is_cpu_enabled();
#endif
}

}  // namespace

Implementation implementation() { return current; }

ImplementationScope::ImplementationScope(Implementation wanted) : before_(current) {
  current = wanted;
}

ImplementationScope::~ImplementationScope() { current = before_; }

SerialProducts::SerialProducts()
    : serial_(current == Implementation::fused ? std::make_unique<kernels::SerialBlas>()
                                               : nullptr) {}

SerialProducts::~SerialProducts() = default;

bool runs_fused(const Tensor& x) {
  return current == Implementation::fused && x.device().is_cpu() &&
         (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64) &&
         !mixed_precision();
}

}  // namespace geores
