#include "geores/data/batch_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "geores/testing/testing.h"

namespace geores {
namespace {

using Indices = std::vector<int64_t>;

// (χ² - df) / sqrt(2 df): a standard normal for uniform draws.
double chi_square_score(const std::vector<int64_t>& counts) {
  int64_t total = 0;
  for (const auto count : counts) total += count;
  const auto expected = static_cast<double>(total) / static_cast<double>(counts.size());
  double sum = 0;
  for (const auto count : counts) sum += std::pow(static_cast<double>(count) - expected, 2);
  const auto freedom = static_cast<double>(counts.size()) - 1;
  return (sum / expected - freedom) / std::sqrt(2 * freedom);
}

TEST(BatchSampler, DrawsAreTheseNumbersForever) {
  EXPECT_EQ(BatchSampler(42, 9000).indices(0, 0, 6), (Indices{5475, 3113, 6501, 3648, 8485, 4335}));
  EXPECT_EQ(BatchSampler(42, 9000).indices(1, 100, 4), (Indices{3895, 1438, 5190, 5279}));
  EXPECT_EQ(BatchSampler(123, int64_t{1} << 62).indices(0, 7, 2),
            (Indices{3125697775774166880, 1956994253488106913}));
}

TEST(BatchSampler, TrainingBatchesDoNotDependOnEvaluations) {
  const BatchSampler quiet(42, 900), busy(42, 900);
  for (int64_t step = 0; step < 50; ++step) {
    if (step % 3 == 0) busy.indices(1, step, 640);
    EXPECT_EQ(quiet.indices(0, step, 64), busy.indices(0, step, 64));
  }
  EXPECT_EQ(BatchSampler(42, 900).indices(0, 49, 64), quiet.indices(0, 49, 64))
      << "a resumed run starts anywhere";
}

TEST(BatchSampler, SeedsSeriesAndStepsGiveUnrelatedDraws) {
  const auto draw = [](uint64_t seed, uint64_t series, int64_t step) {
    return BatchSampler(seed, 1'000'000'000).indices(series, step, 100);
  };
  const std::vector<Indices> all = {draw(1, 0, 0), draw(2, 0, 0), draw(1, 1, 0), draw(1, 0, 1),
                                    draw(0, 1, 0), draw(0, 0, 1), draw(0, 1, 1)};
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      EXPECT_EQ(std::ranges::find_first_of(all[a], all[b]), all[a].end()) << a << " and " << b;
}

TEST(BatchSampler, LongerDrawBeginsWithTheShorterOne) {
  const BatchSampler sampler(5, 77);
  auto longer = sampler.indices(0, 3, 1000);
  longer.resize(10);
  EXPECT_EQ(longer, sampler.indices(0, 3, 10));
}

TEST(BatchSampler, EverySequenceIsEquallyLikelyWithinAStep) {
  for (const int64_t sequences : {2, 7, 100, 900}) {
    std::vector<int64_t> counts(static_cast<std::size_t>(sequences));
    for (const auto index : BatchSampler(42, sequences).indices(0, 0, 500'000))
      ++counts.at(static_cast<std::size_t>(index));
    EXPECT_LT(std::abs(chi_square_score(counts)), 4) << sequences;
  }
}

TEST(BatchSampler, EverySequenceIsEquallyLikelyOverSteps) {
  const BatchSampler sampler(42, 100);
  std::vector<int64_t> first(100), pairs(100);
  for (int64_t step = 0; step < 200'000; ++step) {
    const auto drawn = sampler.indices(0, step, 2);
    ++first.at(static_cast<std::size_t>(drawn[0]));
    ++pairs.at(static_cast<std::size_t>((drawn[1] - drawn[0] + 100) % 100));
  }
  EXPECT_LT(std::abs(chi_square_score(first)), 4);
  EXPECT_LT(std::abs(chi_square_score(pairs)), 4) << "the two draws of a step are related";
}

TEST(BatchSampler, WordsOfTheIncompleteLastIntervalAreDrawnAgain) {
  // 2^64 mod 3·2^61 = 2^62: taken modulo, the lower two thirds of the range would come up one and a
  // half times as often as the rest.
  constexpr int64_t sequences = int64_t{3} << 61;
  std::vector<int64_t> counts(3);
  for (const auto index : BatchSampler(42, sequences).indices(0, 0, 100'000))
    ++counts.at(static_cast<std::size_t>(index / (sequences / 3)));
  EXPECT_LT(std::abs(chi_square_score(counts)), 4);
}

TEST(BatchSampler, OneSequenceIsAlwaysTheFirst) {
  EXPECT_EQ(BatchSampler(1, 1).indices(0, 0, 3), (Indices{0, 0, 0}));
  EXPECT_EQ(BatchSampler(1, 1).indices(0, 0, 0), Indices{});
}

TEST(BatchSampler, NoSequencesAndNegativeNumbersAreRefused) {
  EXPECT_EQ(refusal([] { BatchSampler(1, 0); }), "[batch_sampler] sequences must be >= 1, got 0");
  EXPECT_EQ(refusal([] { BatchSampler(1, 1).indices(0, -1, 1); }),
            "[batch_sampler] step must be >= 0, got -1");
  EXPECT_EQ(refusal([] { BatchSampler(1, 1).indices(0, 0, -1); }),
            "[batch_sampler] count must be >= 0, got -1");
}

}  // namespace
}  // namespace geores
