// Puzzles as the input tensors of a recursive model.
#pragma once

#include "geores/model/model.h"
#include "geores/puzzles/dataset.h"

namespace geores {

// x (B, 1 + T) = [identifier | tokens], y (B, T): int64, on the CPU.
Batch to_tensors(const puzzles::Batch& batch);

InputShape input_shape(const puzzles::DatasetInfo& info);

}  // namespace geores
