// Selects sequences of a data set by index. Most data sets are (N, ...) with a sequence in each
// row. A text is one row of ids, and its sequences are the windows of that row: windows_of returns
// a view (N, length) with overlapping rows, so nothing is copied, and the index of a window is its
// offset. Ids of a text are uint16, which LibTorch 1.13 does not have: they are stored as int16 and
// become int64 when sequences are selected.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// ids (n) int16 -> all windows ids[first + o, first + o + length), o < count.
Tensor windows_of(const Tensor& ids, int64_t length, int64_t first, int64_t count);

// The sequences with these indices (int64, on the same device). Windows become int64 ids.
Tensor sequences_at(const Tensor& all, const Tensor& numbers);

// Moves all sequences to a device; windows stay windows.
Tensor sequences_on(const Tensor& all, torch::Device device);

}  // namespace geores
