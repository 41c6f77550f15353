#pragma once

#include "geores/train/meters/meter.h"

namespace geores {

inline Meter tokens_per_second_meter() {
  return {.key = "tokens_per_second",
          .summary = "positions trained on since the line before, by the time it took",
          .after_step = [](const StepReading& now) {
            const auto tokens = static_cast<double>(now.tokens);
            return nlohmann::json(now.elapsed > 0 ? tokens / now.elapsed : 0.0);
          }};
}

}  // namespace geores
