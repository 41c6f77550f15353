// Tells quickly whether two variants of a task are the same puzzle, that is, whether their
// puzzle_hash is equal, without building the grids.
//   DuplicateFinder finder(pairs);
//   finder.is_new(variant);    true for the first variant of each kind
// A grid's key is linear in its colours, Σ_i π(a_i) w_i with a random 64-bit weight for each cell,
// so the weights of each colour are added up once for every t, and a variant costs ten
// multiplications a grid. Two such keys, 128 bits, are mixed for each pair and added over the
// pairs, because a puzzle does not depend on their order. Different grids have equal keys with a
// probability below 2^−120.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "geores/puzzles/arc/variant.h"

namespace geores::puzzles {

class DuplicateFinder {
 public:
  explicit DuplicateFinder(const std::vector<Pair>& pairs);

  // Remembers the variant.
  bool is_new(const Variant& variant);

 private:
  struct Key {
    uint64_t a = 0, b = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const { return static_cast<std::size_t>(key.a); }
  };
  struct GridKey {
    Key size;
    std::array<Key, kColours> colours;  // sums of the weights of the cells with each colour
  };
  static GridKey key_of(const Grid& grid);
  static Key recoloured(const GridKey& grid, const Variant& variant);
  Key key_of(const Variant& variant) const;

  std::array<std::vector<std::array<GridKey, 2>>, 8> pairs_;  // for each t
  std::unordered_set<Key, KeyHash> known_;
};

}  // namespace geores::puzzles
