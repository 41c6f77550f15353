// Mixed precision for the time this object lives: matrix products in bfloat16, everything else as
// it is. "fp32" does nothing.
#pragma once

#include <torch/torch.h>

#include <string>

namespace geores {

class PrecisionScope {
 public:
  PrecisionScope(const std::string& precision, const torch::Device& device);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  bool active_;
  torch::DeviceType device_;
};

}  // namespace geores
