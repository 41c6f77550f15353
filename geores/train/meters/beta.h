#pragma once

#include "geores/train/meters/probe_mean.h"

namespace geores {

inline Meter beta_meter() {
  return {.key = "beta",
          .summary = "strength β of each operator, mean over a few validation sequences",
          .at_evaluation = [](const EvaluationReading& now) { return probe_means(now, "beta"); }};
}

}  // namespace geores
