#include "geores/puzzles/batch.h"

#include <algorithm>
#include <numeric>

#include "geores/base/error.h"
#include "geores/puzzles/random.h"

namespace geores::puzzles {

void blank_identifiers(Batch& batch) { std::ranges::fill(batch.identifiers, 0); }

ShuffledIdentifiers::ShuffledIdentifiers(int64_t identifiers, uint64_t seed)
    : other_(static_cast<std::size_t>(identifiers)) {
  require(identifiers >= 3, "puzzles", "{} puzzle identifiers cannot be shuffled", identifiers);
  std::iota(other_.begin(), other_.end(), 0);
  // Sattolo's algorithm (1986) draws one cycle through all of them: nothing stays where it is.
  Random random({seed, 0x1de47});
  for (auto i = identifiers - 1; i > 1; --i)
    std::swap(other_[static_cast<std::size_t>(i)],
              other_[static_cast<std::size_t>(1 + random.below(i - 1))]);
}

void ShuffledIdentifiers::apply(Batch& batch) const {
  for (auto& identifier : batch.identifiers)
    identifier = other_.at(static_cast<std::size_t>(identifier));
}

}  // namespace geores::puzzles
