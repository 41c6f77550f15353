// Random numbers that are functions of where they are used: the seed, then for example the epoch
// and the group. Nothing has to be saved to continue, and threads may draw in any order.
//   Random random({seed, kGroupOrder, epoch});
//   random.shuffle(std::span(order));
// SplitMix64 (manifold/algebra/random.h), so the same numbers on every machine.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

#include "geores/manifold/algebra/random.h"

namespace geores::puzzles {

class Random {
 public:
  explicit Random(std::initializer_list<uint64_t> key) : numbers_(0) {
    uint64_t hash = 0;
    for (const auto part : key) hash = manifold::SplitMix64(hash ^ (part + kStep)).next();
    numbers_ = manifold::SplitMix64(hash);
  }

  // Uniform in 0 … bound − 1, bound ≥ 1.
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(numbers_.next() % static_cast<uint64_t>(bound));
  }
  double uniform() { return numbers_.uniform(); }
  bool coin() { return (numbers_.next() >> 63) != 0; }

  template <class T>
  void shuffle(std::span<T> values) {
    for (auto i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[static_cast<std::size_t>(below(static_cast<int64_t>(i)))]);
  }

 private:
  static constexpr uint64_t kStep = 0x632be59bd9b4e019;
  manifold::SplitMix64 numbers_;
};

}  // namespace geores::puzzles
