// A few validation sequences, to look at a model with: the first ones, of a text windows that are
// spread evenly over it. Text comes as int64 ids.
#pragma once

#include "geores/data/dataset.h"

namespace geores {

struct SequencePairs {
  Tensor x, y;
};

SequencePairs validation_sample(const Dataset& dataset, int64_t most);

}  // namespace geores
