// Where the rows of a split come from.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "geores/base/files/mapped_file.h"
#include "geores/base/formats/npy.h"
#include "geores/puzzles/dataset.h"
#include "geores/puzzles/split.h"

namespace geores::puzzles {

// all__inputs.npy and all__labels.npy, which stay on the disk.
class StoredRows final : public RowSource {
 public:
  // uint8 (rows, cells) each.
  StoredRows(const std::filesystem::path& inputs, const std::filesystem::path& labels, int64_t rows,
             int64_t cells);
  void read(const RowPosition& position, std::span<uint8_t> inputs,
            std::span<uint8_t> labels) const override;

 private:
  MappedFile files_[2];
  std::span<const std::byte> values_[2];
};

// Pairs of ARC tasks as their variants, at their offsets.
class ArcRows final : public RowSource {
 public:
  // Without offsets every row is at (0, 0).
  ArcRows(std::shared_ptr<const ArcTables> tables, bool train, int canvas,
          std::vector<std::array<uint8_t, 2>> offsets);
  void read(const RowPosition& position, std::span<uint8_t> inputs,
            std::span<uint8_t> labels) const override;

 private:
  std::shared_ptr<const ArcTables> tables_;
  bool train_;
  int canvas_;
  std::vector<std::array<uint8_t, 2>> offsets_;
};

// Sudokus: variant 0 of a group is the puzzle as it is stored, variant v a shuffle of it that is a
// function of (seed, group, v).
class ShuffledSudokus final : public RowSource {
 public:
  ShuffledSudokus(StoredRows puzzles, int size, uint64_t seed)
      : puzzles_(std::move(puzzles)), size_(size), seed_(seed) {}
  void read(const RowPosition& position, std::span<uint8_t> inputs,
            std::span<uint8_t> labels) const override;

 private:
  StoredRows puzzles_;
  int size_;
  uint64_t seed_;
};

}  // namespace geores::puzzles
