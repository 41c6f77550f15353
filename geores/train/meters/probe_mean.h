// Helper for meters that report a probe of the connections.
#pragma once

#include "geores/train/meters/meter.h"

namespace geores {

// The mean of each probe of that name, in order of depth; null if no connection has one.
inline nlohmann::json probe_means(const EvaluationReading& now, const std::string& name) {
  nlohmann::json values;
  for (const auto& [probe, tensor] : now.probes().probes())
    if (probe == name) values.push_back(tensor.mean().item<double>());
  return values;
}

}  // namespace geores
