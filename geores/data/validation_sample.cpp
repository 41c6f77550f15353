#include "geores/data/validation_sample.h"

#include <algorithm>

#include "geores/ops/training/sequences.h"

namespace geores {

SequencePairs validation_sample(const Dataset& dataset, int64_t most) {
  const auto all = dataset.validation_x.size(0), count = std::min(most, all);
  if (!dataset.text())
    return {dataset.validation_x.slice(0, 0, count), dataset.validation_y.slice(0, 0, count)};
  const auto numbers = torch::arange(count, torch::kInt64) * (all / count);
  return {sequences_at(dataset.validation_x, numbers), sequences_at(dataset.validation_y, numbers)};
}

}  // namespace geores
