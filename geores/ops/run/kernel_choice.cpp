#include "geores/ops/run/kernel_choice.h"

#include <algorithm>

#include "geores/kernels/device.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/run/precision.h"

namespace geores {
namespace {

// The reason why no kernel of ours can run on x; null: none.
const char* missing_for(const Tensor& x, bool fits_type) {
  if (execution().form != Form::fused) return "the fused form";
  if (on_gpu(x) && !kernels::kHasCuda) return "a build with CUDA";
  if (!on_gpu(x) && !x.device().is_cpu()) return "a CPU or a CUDA device";
  return fits_type ? nullptr : "float32 or float64 values";
}

}  // namespace

KernelChoice::KernelChoice(const char* operation, const Tensor& x, const char* kernel)
    : operation_(operation),
      kernel_(kernel),
      missing_(
          missing_for(x, x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64)),
      on_gpu_(on_gpu(x)) {}

KernelChoice KernelChoice::any_type(const char* operation, const Tensor& x, const char* kernel) {
  KernelChoice choice;
  choice.operation_ = operation;
  choice.kernel_ = kernel;
  choice.on_gpu_ = on_gpu(x);
  choice.missing_ = missing_for(x, true);
  return choice;
}

KernelChoice KernelChoice::state(const char* operation, const Tensor& x, const char* kernel) {
  return any_type(operation, x, kernel)
      .need(full_type(x.scalar_type()) == torch::kFloat32 || x.scalar_type() == torch::kFloat64,
            "float32, float64 or bfloat16 values")
      .need_on_cpu(x.scalar_type() != torch::kBFloat16, "float32 or float64 values");
}

KernelChoice KernelChoice::half(const char* operation, const Tensor& x, const char* kernel) {
  return any_type(operation, x, kernel)
      .need(on_gpu(x), "a GPU")
      .need(products_in_bfloat16(), "precision bf16 or bf16_state")
      .need(x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kBFloat16,
            "float32 or bfloat16 values");
}

KernelChoice& KernelChoice::need(bool holds, const char* what) {
  if (missing_ == nullptr && !holds) missing_ = what;
  return *this;
}
KernelChoice& KernelChoice::need_on_cpu(bool holds, const char* what) {
  return need(on_gpu_ || holds, what);
}
KernelChoice& KernelChoice::need_on_gpu(bool holds, const char* what) {
  return need(!on_gpu_ || holds, what);
}

bool KernelChoice::runs() const {
  if (auto* explanation = execution().explanation)
    explanation->add(operation_, kernel_, on_gpu_, missing_);
  return missing_ == nullptr;
}

void Explanation::add(const char* operation, const char* kernel, bool on_gpu, const char* missing) {
  const std::string reason = missing != nullptr ? missing : "";
  const auto found = std::find_if(lines_.begin(), lines_.end(), [&](const Line& line) {
    return line.operation == operation && line.kernel == kernel && line.on_gpu == on_gpu &&
           line.missing == reason;
  });
  if (found != lines_.end())
    ++found->times;
  else
    lines_.push_back({operation, kernel, on_gpu, reason, 1});
}

}  // namespace geores
