#include "geores/puzzles/arc/duplicate_finder.h"

#include "geores/manifold/algebra/random.h"

namespace geores::puzzles {
namespace {

uint64_t mixed(uint64_t value) { return manifold::SplitMix64(value).next(); }

struct Weight {
  uint64_t a, b;
};

const std::vector<Weight>& cell_weights() {
  static const auto weights = [] {
    std::vector<Weight> all(kLargestGrid * kLargestGrid);
    manifold::SplitMix64 random(0x5eed);
    for (auto& each : all) each = {random.next(), random.next()};
    return all;
  }();
  return weights;
}

}  // namespace

DuplicateFinder::GridKey DuplicateFinder::key_of(const Grid& grid) {
  GridKey key{};
  const auto size = static_cast<uint64_t>(grid.height * 256 + grid.width + 1);
  key.size = {mixed(size), mixed(~size)};
  for (int i = 0; i < grid.height; ++i)
    for (int j = 0; j < grid.width; ++j) {
      const auto& weight = cell_weights()[static_cast<std::size_t>(i * kLargestGrid + j)];
      auto& colour = key.colours[grid.at(i, j)];
      colour.a += weight.a;
      colour.b += weight.b;
    }
  return key;
}

DuplicateFinder::DuplicateFinder(const std::vector<Pair>& pairs) {
  for (int t = 0; t < 8; ++t)
    for (const auto& pair : pairs)
      pairs_[static_cast<std::size_t>(t)].push_back(
          {key_of(dihedral(pair.input, t)), key_of(dihedral(pair.output, t))});
}

DuplicateFinder::Key DuplicateFinder::recoloured(const GridKey& grid, const Variant& variant) {
  auto key = grid.size;
  for (std::size_t k = 0; k < kColours; ++k) {
    key.a += variant.colours[k] * grid.colours[k].a;
    key.b += variant.colours[k] * grid.colours[k].b;
  }
  return key;
}

DuplicateFinder::Key DuplicateFinder::key_of(const Variant& variant) const {
  Key sum;
  for (const auto& [input, output] : pairs_[variant.t]) {
    const auto in = recoloured(input, variant), out = recoloured(output, variant);
    sum.a += mixed(mixed(in.a) ^ out.a);
    sum.b += mixed(mixed(in.b) ^ out.b);
  }
  return sum;
}

bool DuplicateFinder::is_new(const Variant& variant) {
  return known_.insert(key_of(variant)).second;
}

}  // namespace geores::puzzles
