#pragma once

#include "geores/train/meters/meter.h"

namespace geores {

inline Meter gradient_norm_meter() {
  return {.key = "grad_norm",
          .summary = "norm of all gradients before clipping",
          .after_step = [](const StepReading& now) { return nlohmann::json(now.gradient_norm); }};
}

}  // namespace geores
