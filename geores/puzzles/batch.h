// Rows of a data set as plain arrays.
#pragma once

#include <cstdint>
#include <vector>

namespace geores::puzzles {

inline constexpr int32_t kNotScored = -100;  // label of a cell that is not scored
inline constexpr int64_t kBlankRow = -1;     // a row that fills up the last batch of an evaluation

struct Batch {
  int64_t rows = 0, cells = 0;
  std::vector<int32_t> inputs = {};       // (rows, cells), tokens
  std::vector<int32_t> labels = {};       // (rows, cells), tokens or kNotScored
  std::vector<int32_t> identifiers = {};  // (rows)
  std::vector<int64_t> source = {};       // (rows): row of the split, or kBlankRow
};

// Two controls of a score that may be memory: the score without the puzzle's identifier,
// and with the identifier of another puzzle.
void blank_identifiers(Batch& batch);

class ShuffledIdentifiers {
 public:
  // A random permutation of 1 … identifiers − 1 without a fixed point; 0 stays.
  ShuffledIdentifiers(int64_t identifiers, uint64_t seed);
  void apply(Batch& batch) const;

 private:
  std::vector<int32_t> other_;
};

}  // namespace geores::puzzles
