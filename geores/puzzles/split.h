// The rows of a data set for training or for testing, and how they belong together: a row is a pair
// of grids, a variant has one or more rows and a puzzle identifier, a group is a puzzle with all
// its variants. Rows come from files that stay on the disk, or are made when they are asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "geores/puzzles/batch.h"

namespace geores::puzzles {

// As in the published files.
struct SplitIndex {
  std::vector<int32_t> identifiers;    // of each variant
  std::vector<int32_t> first_row;      // of each variant, and at the end the number of rows
  std::vector<int32_t> first_variant;  // of each group, and at the end the number of variants
};

// Which row is wanted: its number, and where it is in the index.
struct RowPosition {
  int64_t row, variant, group;
  int64_t row_in_variant, variant_in_group;
  int32_t identifier;
};

class RowSource {
 public:
  virtual ~RowSource() = default;
  // Tokens of input and label, 0 for cells that are not scored. Thread-safe.
  virtual void read(const RowPosition& position, std::span<uint8_t> inputs,
                    std::span<uint8_t> labels) const = 0;
};

class Split {
 public:
  // `ratings` of the groups may be empty.
  Split(SplitIndex index, std::unique_ptr<RowSource> source, int64_t cells, int64_t vocabulary,
        std::vector<int32_t> ratings);

  int64_t rows() const { return index_.first_row.back(); }
  int64_t variants() const { return static_cast<int64_t>(index_.identifiers.size()); }
  int64_t groups() const { return static_cast<int64_t>(index_.first_variant.size()) - 1; }
  double mean_rows_per_variant() const;
  int64_t cells() const { return cells_; }

  RowPosition position(int64_t row) const;
  int32_t identifier(int64_t row) const { return position(row).identifier; }
  // Sudoku: how hard the puzzle is (sudoku/solver.h); −1 elsewhere.
  int64_t rating(int64_t row) const;

  // `cells()` values each.
  void fill(int64_t row, int32_t* inputs, int32_t* labels) const;
  Batch batch(std::span<const int64_t> rows) const;

  const SplitIndex& index() const { return index_; }

 private:
  SplitIndex index_;
  std::unique_ptr<RowSource> source_;
  int64_t cells_, vocabulary_;
  std::vector<int32_t> ratings_;
};

// Rows first … first + batch_rows − 1 of an evaluation in file order, filled up with kBlankRow.
// limit < 0: all rows of the split.
std::vector<int64_t> evaluation_rows(const Split& split, int64_t first, int64_t batch_rows,
                                     int64_t limit = -1);

// The rows of the first `variants` variants of each group, in file order.
std::vector<int64_t> first_variants(const Split& split, int64_t variants);

}  // namespace geores::puzzles
