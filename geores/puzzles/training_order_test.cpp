#include "geores/puzzles/training_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "geores/puzzles/random.h"
#include "geores/testing/testing.h"

namespace geores::puzzles {
namespace {

class NoRows final : public RowSource {
 public:
  void read(const RowPosition&, std::span<uint8_t>, std::span<uint8_t>) const override {}
};

// Group g has 1 + g % 3 variants of 1 + g % 4 rows.
Split sample(int groups) {
  SplitIndex index;
  index.first_row.push_back(0);
  index.first_variant.push_back(0);
  for (int g = 0; g < groups; ++g) {
    for (int v = 0; v < 1 + g % 3; ++v) {
      index.identifiers.push_back(static_cast<int32_t>(index.identifiers.size()) + 1);
      index.first_row.push_back(index.first_row.back() + 1 + g % 4);
    }
    index.first_variant.push_back(static_cast<int32_t>(index.identifiers.size()));
  }
  return {std::move(index), std::make_unique<NoRows>(), 4, 12, {}};
}

TEST(TrainingOrder, IsAFunctionOfSeedAndStep) {
  const auto split = sample(20);
  TrainingOrder forward(split, 5, 7), jumping(split, 5, 7), other(split, 6, 7);
  std::vector<std::vector<int64_t>> batches;
  for (int64_t step = 0; step < 60; ++step) batches.push_back(forward.rows(step));
  for (const int64_t step : {59, 0, 1, 30, 29, 29, 31, 3, 58})
    EXPECT_EQ(jumping.rows(step), batches[static_cast<std::size_t>(step)]) << step;
  for (const auto& batch : batches) EXPECT_EQ(batch.size(), 7u);
  EXPECT_NE(other.rows(0), batches[0]);
}

TEST(TrainingOrder, AskingForTheEpochChangesNothing) {
  const auto split = sample(20);
  TrainingOrder plain(split, 5, 7), asked(split, 5, 7);
  int64_t before = 0;
  for (int64_t step = 0; step < 40; ++step) {
    const auto epoch = asked.epoch(step);
    EXPECT_GE(epoch, before);
    before = epoch;
    EXPECT_EQ(asked.rows(step), plain.rows(step));
  }
  EXPECT_GT(before, 3);
}

// A batch as large as an epoch: 20 groups have 50 rows, of one variant each.
TEST(TrainingOrder, AnEpochHasOneVariantOfEachGroup) {
  const auto split = sample(20);
  TrainingOrder order(split, 1, 50);
  std::map<int64_t, std::set<int64_t>> chosen;
  for (int64_t step = 0; step < 60; ++step) {
    const auto rows = order.rows(step);
    EXPECT_EQ(order.epoch(step), step);
    std::set<int64_t> different(rows.begin(), rows.end());
    EXPECT_EQ(different.size(), 50u);
    std::map<int64_t, std::set<int64_t>> variants;
    for (const auto row : rows) {
      const auto position = split.position(row);
      variants[position.group].insert(position.variant);
      chosen[position.group].insert(position.variant_in_group);
    }
    EXPECT_EQ(variants.size(), 20u);
    for (const auto& [group, used] : variants) EXPECT_EQ(used.size(), 1u);
  }
  for (const auto& [group, used] : chosen)
    EXPECT_EQ(static_cast<int64_t>(used.size()), 1 + group % 3) << "variants are all used";
}

// Two groups of 3 and 4 rows, batches of 5: the rest of the second group is dropped.
TEST(TrainingOrder, DropsTheRestOfTheLastVariantOfABatch) {
  SplitIndex index{{1, 2}, {0, 3, 7}, {0, 1, 2}};
  const Split split(std::move(index), std::make_unique<NoRows>(), 4, 12, {});
  TrainingOrder order(split, 3, 5);
  for (int64_t step = 0; step < 20; ++step) {
    const auto rows = order.rows(step);
    EXPECT_EQ(order.epoch(step), step);
    const auto small = std::ranges::count_if(rows, [](int64_t row) { return row < 3; });
    EXPECT_TRUE(small == 3 || small == 1) << small;
  }
}

TEST(TrainingOrder, RoundsEndWithTheirLastFullBatch) {
  const auto split = sample(20);  // 50 rows an epoch
  TrainingOrder rounds(split, 2, 40, 1), across(split, 2, 40);
  for (int64_t step = 0; step < 10; ++step) EXPECT_EQ(rounds.epoch(step), step);
  EXPECT_LT(across.epoch(9), 9);
  EXPECT_EQ(rounds.rows(0), across.rows(0));
  EXPECT_NE(rounds.rows(1), across.rows(1));
  EXPECT_EQ(refusal([&] { TrainingOrder(split, 2, 51, 1); }),
            "[puzzles] a round of 1 epochs over 20 groups may not fill a batch of 51 rows");
}

// 960 groups of ARC's 3,988 pairs: docs/guides/recursive_model.md plans 518,226 steps of 768 rows.
TEST(TrainingOrder, PlansStepsFromTheMeanOfRowsPerVariant) {
  const auto split = sample(20);
  EXPECT_EQ(TrainingOrder(split, 0, 10).planned_steps(1000),
            static_cast<int64_t>(1000 * 20 * split.mean_rows_per_variant() / 10));
  EXPECT_EQ(refusal([&] { TrainingOrder(split, 0, 0); }), "[puzzles] batch must be >= 1, got 0");
  EXPECT_EQ(refusal([&] { TrainingOrder(split, 0, 1).rows(-1); }),
            "[puzzles] step must be >= 0, got -1");
}

TEST(Evaluation, RowsAreInFileOrderAndFilledUpWithBlankOnes) {
  const auto split = sample(3);  // 1 + 2·2 + 3·3 rows
  EXPECT_EQ(split.rows(), 14);
  EXPECT_EQ(evaluation_rows(split, 12, 4), (std::vector<int64_t>{12, 13, kBlankRow, kBlankRow}));
  EXPECT_EQ(evaluation_rows(split, 0, 3, 2), (std::vector<int64_t>{0, 1, kBlankRow}));
  EXPECT_EQ(first_variants(split, 2), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  const auto batch = split.batch(std::vector<int64_t>{kBlankRow});
  EXPECT_EQ(batch.inputs, std::vector<int32_t>(4, 0));
  EXPECT_EQ(batch.labels, std::vector<int32_t>(4, kNotScored));
  EXPECT_EQ(batch.identifiers[0], 0);
  EXPECT_EQ(refusal([&] { split.position(14); }), "[puzzles] row 14 is not one of 14 rows");
}

TEST(Identifiers, CanBeBlankedAndShuffled) {
  Batch batch{.rows = 4, .cells = 0, .identifiers = {0, 1, 2, 9}};
  std::vector<int32_t> all(10);
  for (int i = 0; i < 10; ++i) all[static_cast<std::size_t>(i)] = i;
  Batch every{.rows = 10, .cells = 0, .identifiers = all};
  ShuffledIdentifiers(10, 3).apply(every);
  EXPECT_EQ(every.identifiers[0], 0);
  for (std::size_t i = 1; i < 10; ++i) EXPECT_NE(every.identifiers[i], all[i]);
  std::ranges::sort(every.identifiers);
  EXPECT_EQ(every.identifiers, all);
  blank_identifiers(batch);
  EXPECT_EQ(batch.identifiers, std::vector<int32_t>(4, 0));
}

}  // namespace
}  // namespace geores::puzzles
