#pragma once

#include "geores/train/meters/meter.h"

namespace geores {

inline Meter train_loss_meter() {
  return {.key = "train",
          .summary = "text: mean loss over random train batches, without dropout",
          .at_evaluation = [](const EvaluationReading& now) {
            return now.train ? nlohmann::json(*now.train) : nlohmann::json();
          }};
}

}  // namespace geores
