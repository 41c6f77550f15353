// Evaluations have their own random draws: more evaluations change no training batch.
#pragma once

#include <cstdint>

namespace geores {

enum Series : uint64_t { kTrainingBatches = 0, kEvaluationBatches = 1, kTrainLossBatches = 2 };

}  // namespace geores
