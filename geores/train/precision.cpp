#include "geores/train/precision.h"

#include <ATen/autocast_mode.h>
#include <torch/version.h>

namespace geores {
namespace {

// LibTorch 1.13 has one pair of functions per device, 2.x one pair for all.
void set_autocast(torch::DeviceType device, bool enabled) {
#if TORCH_VERSION_MAJOR >= 2 && TORCH_VERSION_MINOR >= 4
  at::autocast::set_autocast_dtype(device, torch::kBFloat16);
  at::autocast::set_autocast_enabled(device, enabled);
#else
  if (device == torch::kCUDA) {
    at::autocast::set_autocast_gpu_dtype(torch::kBFloat16);
    at::autocast::set_enabled(enabled);
  } else {
    at::autocast::set_autocast_cpu_dtype(torch::kBFloat16);
    at::autocast::set_cpu_enabled(enabled);
  }
#endif
}

}  // namespace

PrecisionScope::PrecisionScope(const std::string& precision, const torch::Device& device)
    : active_(precision == "bf16"), device_(device.type()) {
  if (active_) set_autocast(device_, true);
}

PrecisionScope::~PrecisionScope() {
  if (!active_) return;
  at::autocast::clear_cache();
  set_autocast(device_, false);
}

}  // namespace geores
