// The input of a model of tokens: a row of a table for each id, plus a row for its position.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// ids (B, T) int64, table (V, C), rows (T, C) -> (B, T, C). On a GPU the table's gradient is added
// to its slot (step_parameters.h) row by row, and no gradient of the whole table is allocated.
Tensor embedded(const Tensor& table, const Tensor& ids, const Tensor& rows);

}  // namespace geores
