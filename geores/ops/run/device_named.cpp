#include "geores/ops/run/device_named.h"

#include <torch/cuda.h>

#include "geores/base/error.h"

namespace geores {

torch::Device device_named(const std::string& name, const std::string& command) {
  require(name == "cpu" || name == "cuda", command, "device must be cpu or cuda, got '{}'", name);
  require(name == "cpu" || torch::cuda::is_available(), command,
          "device cuda was asked for, but there is none");
  return torch::Device(name);
}

}  // namespace geores
