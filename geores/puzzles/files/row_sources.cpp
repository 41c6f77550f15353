#include "geores/puzzles/files/row_sources.h"

#include <algorithm>
#include <cstring>

#include "geores/base/error.h"
#include "geores/puzzles/sudoku/shuffle.h"

namespace geores::puzzles {

StoredRows::StoredRows(const std::filesystem::path& inputs, const std::filesystem::path& labels,
                       int64_t rows, int64_t cells)
    : files_{MappedFile(inputs), MappedFile(labels)} {
  const std::filesystem::path* paths[] = {&inputs, &labels};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto view = view_npy(files_[i].bytes(), paths[i]->native());
    require(view.dtype == Dtype::u8 && view.shape == std::vector<int64_t>{rows, cells},
            paths[i]->native(), "must be a uint8 array of {} x {}", rows, cells);
    values_[i] = view.bytes;
  }
}

void StoredRows::read(const RowPosition& position, std::span<uint8_t> inputs,
                      std::span<uint8_t> labels) const {
  const auto begin = static_cast<std::size_t>(position.row) * inputs.size();
  std::memcpy(inputs.data(), values_[0].data() + begin, inputs.size());
  std::memcpy(labels.data(), values_[1].data() + begin, labels.size());
}

ArcRows::ArcRows(std::shared_ptr<const ArcTables> tables, bool train, int canvas,
                 std::vector<std::array<uint8_t, 2>> offsets)
    : tables_(std::move(tables)), train_(train), canvas_(canvas), offsets_(std::move(offsets)) {}

void ArcRows::read(const RowPosition& position, std::span<uint8_t> inputs,
                   std::span<uint8_t> labels) const {
  const auto& group =
      tables_->groups[static_cast<std::size_t>(tables_->group(position.identifier))];
  const auto& pairs = train_ ? group.train : group.test;
  const auto offset = offsets_.empty() ? std::array<uint8_t, 2>{0, 0}
                                       : offsets_[static_cast<std::size_t>(position.row)];
  make_row(pairs.at(static_cast<std::size_t>(position.row_in_variant)),
           tables_->variant(position.identifier), canvas_, offset, inputs, labels);
}

void ShuffledSudokus::read(const RowPosition& position, std::span<uint8_t> inputs,
                           std::span<uint8_t> labels) const {
  auto stored = position;
  stored.row = position.group;
  puzzles_.read(stored, inputs, labels);
  if (position.variant_in_group == 0) return;
  const auto shuffle = SudokuShuffle::draw(size_, seed_, static_cast<uint64_t>(position.group),
                                           static_cast<uint64_t>(position.variant_in_group));
  shuffle.apply_to_tokens(inputs);
  shuffle.apply_to_tokens(labels);
}

}  // namespace geores::puzzles
