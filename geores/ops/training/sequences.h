// Sequences of a data set by their numbers. Most data sets are (N, ...) with a sequence in each row.
// A text is one row of ids, and its sequences are the windows of that row: windows_of gives a view
// (N, length) whose rows overlap, so nothing is copied, and the number of a window is its offset.
// Ids of a text are uint16, which LibTorch 1.13 does not have: they lie in tensors of int16 and become
// int64 when sequences are taken.
#pragma once

#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// ids (n) int16 -> all windows ids[first + o, first + o + length), o < count.
Tensor windows_of(const Tensor& ids, int64_t length, int64_t first, int64_t count);

// The sequences of these numbers (int64, on the same device). Windows come as int64 ids.
Tensor sequences_at(const Tensor& all, const Tensor& numbers);

// All sequences on a device; windows stay windows.
Tensor sequences_on(const Tensor& all, torch::Device device);

}  // namespace geores
