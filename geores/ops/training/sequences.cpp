#include "geores/ops/training/sequences.h"

#include "geores/base/error.h"

namespace geores {
namespace {

bool are_windows(const Tensor& all) {
  return all.scalar_type() == torch::kInt16 && all.dim() == 2 && all.stride(0) == 1;
}

// The row of ids that the windows view.
Tensor row_below(const Tensor& windows) {
  return windows.as_strided({windows.size(0) + windows.size(1) - 1}, {1});
}

}  // namespace

Tensor windows_of(const Tensor& ids, int64_t length, int64_t first, int64_t count) {
  require(ids.dim() == 1 && ids.scalar_type() == torch::kInt16 && ids.is_contiguous(), "windows",
          "expected a row of int16 ids");
  require(length >= 1 && first >= 0 && count >= 1 && first + count + length - 1 <= ids.size(0),
          "windows", "{} windows of {} from {} do not fit into {} ids", count, length, first,
          ids.size(0));
  return ids.as_strided({count, length}, {1, 1}, ids.storage_offset() + first);
}

Tensor sequences_at(const Tensor& all, const Tensor& numbers) {
  if (!are_windows(all)) return all.index_select(0, numbers);
  const auto length = all.size(1);
  const auto positions = numbers.unsqueeze(1) + torch::arange(length, numbers.options());
  const auto taken = row_below(all).index_select(0, positions.flatten());
  return taken.to(torch::kInt64).bitwise_and(0xFFFF).view({-1, length});
}

Tensor sequences_on(const Tensor& all, torch::Device device) {
  if (!are_windows(all) || all.device() == device) return all.to(device);
  return windows_of(row_below(all).to(device), all.size(1), 0, all.size(0));
}

}  // namespace geores
