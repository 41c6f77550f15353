#pragma once

#include "geores/model/recursive/recursive_options.h"
#include "geores/model/registry.h"

namespace geores {

ModelKind recursive_kind();

// The options as a struct; missing ones have their defaults.
RecursiveOptions recursive_options(const ModelConfig& config);

}  // namespace geores
