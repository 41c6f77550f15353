#pragma once

#include "geores/train/meters/meter.h"

namespace geores {

inline Meter validation_meter() {
  return {
      .key = "validation",
      .summary = "mean loss over random validation batches",
      .at_evaluation = [](const EvaluationReading& now) { return nlohmann::json(now.validation); }};
}

}  // namespace geores
