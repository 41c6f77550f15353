// The device that a flag or a configuration names.
#pragma once

#include <torch/types.h>

#include <string>

namespace geores {

// "cpu" or "cuda". A device that this machine lacks is an error of `command`.
torch::Device device_named(const std::string& name, const std::string& command);

}  // namespace geores
