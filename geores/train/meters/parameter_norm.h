#pragma once

#include "geores/train/meters/meter.h"

namespace geores {

inline Meter parameter_norm_meter() {
  return {.key = "param_norm",
          .summary = "norm of all parameters that the optimiser trains",
          .after_step = [](const StepReading& now) {
            return nlohmann::json(now.parameters.norm().item<double>());
          }};
}

}  // namespace geores
