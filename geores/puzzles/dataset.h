// A puzzle data set on the disk. `geores data` makes one; the layout published with the Tiny
// Recursive Model is read as well.
//
//   geores.json            format, version, kind, canvas, options; sha256 of every other file
//   {train,test}/dataset.json                    sizes, as published
//   {train,test}/all__puzzle_identifiers.npy     int32, of each variant
//   {train,test}/all__puzzle_indices.npy         int32, first row of each variant, and their number
//   {train,test}/all__group_indices.npy          int32, first variant of each group, and their number
// and the rows, stored (as published, and the only form of mazes):
//   {train,test}/all__{inputs,labels}.npy        uint8 (rows, cells), labels 0: not scored
//   identifiers.json, test_puzzles.json          ARC: names of variants, tasks to be scored
// or made when they are asked for:
//   tasks.json, variants.npy, train/offsets.npy  ARC: arc/recipe.h
//   train/puzzles__{inputs,labels}.npy           sudoku: shuffled by sudoku/shuffle.h
// Sudokus have {train,test}/ratings.npy, int32 of each group. Large arrays are memory-mapped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/puzzles/arc/recipe.h"
#include "geores/puzzles/batch.h"
#include "geores/puzzles/split.h"
#include "geores/puzzles/training_order.h"

namespace geores::puzzles {

inline constexpr int kDatasetVersion = 1;
inline constexpr const char* kDatasetFormat = "geores puzzles";

struct DatasetInfo {
  std::string kind = {};          // "arc", "sudoku", "maze" or "reflect"
  int64_t height = 0, width = 0;  // of the canvas
  int64_t vocabulary = 0;         // tokens are 0 … vocabulary − 1
  int64_t identifiers = 1;        // rows of the puzzle table, the blank identifier 0 included
  nlohmann::json options = {};    // the options of its generation

  int64_t cells() const { return height * width; }
  bool is_arc() const { return kind == "arc" || kind == "reflect"; }
};

// ARC: the meaning of each identifier, and the tasks.
struct ArcTables {
  std::vector<Group> groups;      // of a published set only the tests are known
  std::vector<int32_t> group_of;  // identifier i is variants[i − 1] of groups[group_of[i − 1]]
  std::vector<Variant> variants;
  int32_t group(int32_t identifier) const {
    return group_of.at(static_cast<std::size_t>(identifier - 1));
  }
  const Variant& variant(int32_t identifier) const {
    return variants.at(static_cast<std::size_t>(identifier - 1));
  }
};

class Dataset {
 public:
  // One line if it cannot be read:
  //   [arc1] is version 2 of the data set format, this geores reads version 1; build it again
  static Dataset open(const std::filesystem::path& folder);

  const DatasetInfo& info() const { return info_; }
  const Split& train() const { return *train_; }
  const Split& test() const { return *test_; }
  const ArcTables& arc() const { return *arc_; }  // ARC only

  // SHA-256 that distinguishes data sets. It covers the rows only if geores.json has their sums, which
  // open() compares with the files (but for stored rows of more than 256 MiB).
  const std::string& fingerprint() const { return fingerprint_; }

  // "8be77c9e|||t7|||0612397845"; "<blank>" for 0
  std::string identifier_name(int32_t identifier) const;

 private:
  Dataset() = default;

  DatasetInfo info_;
  std::shared_ptr<const ArcTables> arc_;
  std::unique_ptr<const Split> train_, test_;
  std::string fingerprint_;
};

}  // namespace geores::puzzles
