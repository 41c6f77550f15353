// The device that a flag or a configuration names.
#pragma once

#include <torch/types.h>

#include <string>

namespace geores {

// "cpu" or "cuda". What this machine does not have is refused in the name of `command`.
torch::Device device_named(const std::string& name, const std::string& command);

}  // namespace geores
