#include "geores/ops/streams/stream_kernels.h"

#include <algorithm>
#include <vector>

#include "geores/kernels/device.h"
#include "geores/kernels/sizes.h"
#include "geores/kernels/streams/wide_mix.h"

namespace geores::fused {

kernels::StreamShape stream_shape(const Tensor& x) {
  return {.tokens = x.size(0) * x.size(1), .n = x.size(2), .d = x.size(3)};
}

kernels::StreamShape split_shape(const Tensor& x, int64_t n) {
  return {.tokens = x.size(0) * x.size(1), .n = n, .d = x.size(2) / n};
}

kernels::Branch branch_kind(const Tensor& branch) {
  return branch.dim() == 3 ? kernels::Branch::shared : kernels::Branch::per_stream;
}

KernelChoice& need_streams(KernelChoice& choice, int64_t n, int64_t d) {
  static const auto most = "at most " + std::to_string(kernels::kMostStreams) + " streams",
                    count = numbers_that(kernels::is_device_stream_count) + " streams",
                    width = "streams of at most " + std::to_string(kernels::kDeviceStreamWidth) +
                            " values";
  return choice.need_on_cpu(n <= kernels::kMostStreams, most.c_str())
      .need_on_gpu(kernels::is_device_stream_count(n), count.c_str())
      .need_on_gpu(d <= kernels::kDeviceStreamWidth, width.c_str());
}

KernelChoice& need_any_streams(KernelChoice& choice, int64_t n, int64_t d, bool with_bias) {
  static const auto width =
                        "tokens of at most " + std::to_string(kernels::kMostWideValues) + " values",
                    bias = "no bias where streams are wider than " +
                           std::to_string(kernels::kDeviceStreamWidth) + " values";
  const bool narrow = d <= kernels::kDeviceStreamWidth;
  return need_streams(choice, n, std::min(d, kernels::kDeviceStreamWidth))
      .need_on_gpu(n * d <= kernels::kMostWideValues, width.c_str())
      .need_on_gpu(narrow || !with_bias, bias.c_str());
}

KernelChoice& need_mixer(KernelChoice& choice, int64_t n) {
  static const auto on_cpu = numbers_that(kernels::is_compiled_size) + " streams",
                    on_gpu = numbers_that(kernels::is_device_mixer_size) + " streams";
  return choice.need_on_cpu(kernels::is_compiled_size(n), on_cpu.c_str())
      .need_on_gpu(kernels::is_device_mixer_size(n), on_gpu.c_str());
}

std::string numbers_that(bool (*holds)(int64_t)) {
  constexpr int64_t kLargest = 1024;  // above all sizes that kernels are compiled for
  std::vector<std::string> numbers;
  for (int64_t n = 1; n <= kLargest; ++n)
    if (holds(n)) numbers.push_back(std::to_string(n));
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i == 0 ? "" : i + 1 < numbers.size() ? ", " : " or ") + numbers[i];
  return text;
}

}  // namespace geores::fused
