#pragma once

#include "geores/train/meters/meter.h"

namespace geores {

inline Meter loss_meter() {
  return {.key = "loss",
          .summary = "loss of the task on the step's batch",
          .after_step = [](const StepReading& now) { return nlohmann::json(now.loss); }};
}

}  // namespace geores
