// Selects the fused or the composed form of an operation, and records why. An operation states its
// kernel's requirements, and `geores bench --explain` prints the results:
//   const auto kernel = KernelChoice("layer_norm", x)
//                           .need_on_gpu(width <= kernels::kDeviceRow, "rows of at most 512 values");
//   if (!kernel.runs()) return composed(x);
#pragma once

#include <string>
#include <vector>

#include "geores/ops/run/execution.h"
#include "geores/ops/torch.h"

namespace geores {

class KernelChoice {
 public:
  // For a kernel on values of x: the form must be fused, and x float32 or float64 on a device with
  // kernels. `kernel` distinguishes several kernels of one operation.
  KernelChoice(const char* operation, const Tensor& x, const char* kernel = "kernel");

  // The same for any type of x.
  static KernelChoice any_type(const char* operation, const Tensor& x, const char* kernel);

  // For a kernel on a state: x float32, float64 or, on a GPU, bfloat16 (Precision::bf16_state).
  static KernelChoice state(const char* operation, const Tensor& x, const char* kernel = "kernel");

  // For a kernel on bfloat16 factors on a GPU: x float32 or bfloat16, precision bf16 or bf16_state.
  static KernelChoice half(const char* operation, const Tensor& x,
                           const char* kernel = "bfloat16 kernel");

  // Requirements of the kernel: on all devices, on a CPU, on a GPU. The first one that does not
  // hold is the recorded reason.
  KernelChoice& need(bool holds, const char* what);
  KernelChoice& need_on_cpu(bool holds, const char* what);
  KernelChoice& need_on_gpu(bool holds, const char* what);

  // Whether the kernel runs; records the answer if the Execution has an Explanation.
  bool runs() const;

 private:
  KernelChoice() = default;

  const char* operation_ = "";
  const char* kernel_ = "";
  const char* missing_ = nullptr;  // the first requirement that does not hold
  bool on_gpu_ = false;
};

// The choices made while an Execution referenced this explanation.
class Explanation {
 public:
  struct Line {
    std::string operation, kernel;
    bool on_gpu = false;
    std::string missing;  // empty: the kernel runs
    int64_t times = 0;
  };

  void add(const char* operation, const char* kernel, bool on_gpu, const char* missing);
  const std::vector<Line>& lines() const { return lines_; }  // in order of first use

 private:
  std::vector<Line> lines_;
};

}  // namespace geores
