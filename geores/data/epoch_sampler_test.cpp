#include "geores/data/epoch_sampler.h"

#include <gtest/gtest.h>

#include <set>

namespace geores {
namespace {

TEST(EpochSampler, TakesEachWindowOnceAnEpoch) {
  for (const int64_t ids : {6, 7, 11, 50, 1003}) {
    constexpr int64_t length = 5;
    const EpochSampler sampler(7, ids, length);
    std::set<int64_t> phases;
    for (int64_t epoch = 0; epoch < 6; ++epoch) {
      std::set<int64_t> seen;
      for (const auto offset : sampler.offsets(epoch, sampler.windows())) {
        EXPECT_GE(offset, 0);
        EXPECT_LT(offset + length, ids) << "the last target is an id too";
        EXPECT_TRUE(seen.insert(offset).second) << offset << " twice";
      }
      for (const auto offset : seen) EXPECT_EQ((offset - *seen.begin()) % length, 0);
      phases.insert(*seen.begin());
    }
    if (ids >= 11) {
      EXPECT_GT(phases.size(), 1u) << ids;
    }
  }
}

TEST(EpochSampler, IsAFunctionOfSeedAndStep) {
  const EpochSampler one(1, 1000, 8), same(1, 1000, 8), other(2, 1000, 8);
  EXPECT_EQ(one.offsets(5, 16), same.offsets(5, 16));
  EXPECT_NE(one.offsets(5, 16), other.offsets(5, 16));
  EXPECT_NE(one.offsets(5, 16), one.offsets(6, 16));
  auto pieces = one.offsets(0, 2);
  for (const auto offset : one.offsets(1, 2)) pieces.push_back(offset);
  EXPECT_EQ(pieces, one.offsets(0, 4)) << "batches continue each other";
}

}  // namespace
}  // namespace geores
