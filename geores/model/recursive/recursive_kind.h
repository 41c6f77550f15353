#pragma once

#include "geores/model/registry.h"

namespace geores {

ModelKind recursive_kind();

}  // namespace geores
