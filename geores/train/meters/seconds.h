#pragma once

#include "geores/train/meters/meter.h"

namespace geores {

inline Meter seconds_meter() {
  return {.key = "seconds",
          .summary = "time of the run so far, earlier legs of a resumed run included",
          .after_step = [](const StepReading& now) { return nlohmann::json(now.seconds); }};
}

}  // namespace geores
