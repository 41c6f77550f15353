#include "geores/ops/run/implementation.h"

#include <atomic>

#include "geores/kernels/device.h"

namespace geores {
namespace {

thread_local bool repeated = false;  // of RepeatedForGradients

std::atomic<Implementation> current = Implementation::fused;

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
         (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64);
}

bool runs_on_gpu(const Tensor& x) {
  return kernels::kHasCuda && current == Implementation::fused && x.is_cuda() &&
         (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64);
}

RepeatedForGradients::RepeatedForGradients() : before_(repeated) { repeated = true; }
RepeatedForGradients::~RepeatedForGradients() { repeated = before_; }
bool repeated_for_gradients() { return repeated; }

}  // namespace geores
