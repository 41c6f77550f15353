#pragma once

#include "geores/train/meters/probe_mean.h"

namespace geores {

inline Meter gamma_meter() {
  return {.key = "gamma",
          .summary = "gate γ of each operator, mean over a few validation sequences",
          .at_evaluation = [](const EvaluationReading& now) { return probe_means(now, "gamma"); }};
}

}  // namespace geores
