#include "geores/puzzles/split.h"

#include <algorithm>

#include "geores/base/error.h"

namespace geores::puzzles {
namespace {

// Where the interval that holds `value` begins in `firsts`.
int64_t interval(const std::vector<int32_t>& firsts, int64_t value) {
  return std::upper_bound(firsts.begin(), firsts.end(), value) - firsts.begin() - 1;
}

int64_t at(const std::vector<int32_t>& values, int64_t i) {
  return values[static_cast<std::size_t>(i)];
}

}  // namespace

Split::Split(SplitIndex index, std::unique_ptr<RowSource> source, int64_t cells, int64_t vocabulary,
             std::vector<int32_t> ratings)
    : index_(std::move(index)),
      source_(std::move(source)),
      cells_(cells),
      vocabulary_(vocabulary),
      ratings_(std::move(ratings)) {}

double Split::mean_rows_per_variant() const {
  return static_cast<double>(rows()) / static_cast<double>(variants());
}

RowPosition Split::position(int64_t row) const {
  require(row >= 0 && row < rows(), "puzzles", "row {} is not one of {} rows", row, rows());
  RowPosition found{};
  found.row = row;
  found.variant = interval(index_.first_row, row);
  found.group = interval(index_.first_variant, found.variant);
  found.row_in_variant = row - at(index_.first_row, found.variant);
  found.variant_in_group = found.variant - at(index_.first_variant, found.group);
  found.identifier = static_cast<int32_t>(at(index_.identifiers, found.variant));
  return found;
}

int64_t Split::rating(int64_t row) const {
  return ratings_.empty() ? -1 : at(ratings_, position(row).group);
}

void Split::fill(int64_t row, int32_t* inputs, int32_t* labels) const {
  const auto count = static_cast<std::size_t>(cells_);
  std::vector<uint8_t> tokens(2 * count);
  const auto first = std::span(tokens).first(count), second = std::span(tokens).last(count);
  source_->read(position(row), first, second);
  const auto largest = *std::ranges::max_element(tokens);
  require(largest < vocabulary_, "puzzles", "row {} holds token {}, the vocabulary has {}", row,
          largest, vocabulary_);
  for (std::size_t i = 0; i < count; ++i) {
    inputs[i] = first[i];
    labels[i] = second[i] == 0 ? kNotScored : second[i];
  }
}

Batch Split::batch(std::span<const int64_t> rows) const {
  Batch batch{.rows = static_cast<int64_t>(rows.size()), .cells = cells_};
  const auto values = rows.size() * static_cast<std::size_t>(cells_);
  batch.inputs.assign(values, 0);
  batch.labels.assign(values, kNotScored);
  batch.identifiers.assign(rows.size(), 0);
  batch.source.assign(rows.begin(), rows.end());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == kBlankRow) continue;
    const auto begin = i * static_cast<std::size_t>(cells_);
    fill(rows[i], batch.inputs.data() + begin, batch.labels.data() + begin);
    batch.identifiers[i] = identifier(rows[i]);
  }
  return batch;
}

std::vector<int64_t> evaluation_rows(const Split& split, int64_t first, int64_t batch_rows,
                                     int64_t limit) {
  const auto end = limit < 0 ? split.rows() : std::min(limit, split.rows());
  std::vector<int64_t> rows;
  for (auto row = first; row < first + batch_rows; ++row)
    rows.push_back(row < end ? row : kBlankRow);
  return rows;
}

std::vector<int64_t> first_variants(const Split& split, int64_t variants) {
  const auto& index = split.index();
  std::vector<int64_t> rows;
  for (int64_t group = 0; group < split.groups(); ++group) {
    const auto begin = at(index.first_variant, group);
    const auto end = std::min(at(index.first_variant, group + 1), begin + variants);
    for (auto row = at(index.first_row, begin); row < at(index.first_row, end); ++row)
      rows.push_back(row);
  }
  return rows;
}

}  // namespace geores::puzzles
