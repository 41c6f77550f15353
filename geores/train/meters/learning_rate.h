#pragma once

#include "geores/train/meters/meter.h"

namespace geores {

inline Meter learning_rate_meter() {
  return {.key = "lr",
          .summary = "learning rate of the step",
          .after_step = [](const StepReading& now) { return nlohmann::json(now.learning_rate); }};
}

}  // namespace geores
