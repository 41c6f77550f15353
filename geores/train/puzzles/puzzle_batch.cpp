#include "geores/train/puzzles/puzzle_batch.h"

namespace geores {

Batch to_tensors(const puzzles::Batch& batch) {
  const auto of = [](const std::vector<int32_t>& values, at::IntArrayRef shape) {
    // A copy, because from_blob does not own the vector's memory.
    return torch::from_blob(const_cast<int32_t*>(values.data()), shape, torch::kInt32)
        .to(torch::kInt64);
  };
  return {
      torch::cat(
          {of(batch.identifiers, {batch.rows, 1}), of(batch.inputs, {batch.rows, batch.cells})}, 1),
      of(batch.labels, {batch.rows, batch.cells})};
}

InputShape input_shape(const puzzles::DatasetInfo& info) {
  return {.length = info.cells(), .width = 1, .vocabulary = info.vocabulary};
}

}  // namespace geores
