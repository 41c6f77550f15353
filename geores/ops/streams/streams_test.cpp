#include "geores/ops/streams/streams.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/base/error.h"
#include "geores/ops/mixers/constants.h"
#include "geores/ops/streams/pool.h"

namespace geores {
namespace {

TEST(Streams, SplitAndJoinUndoEachOther) {
  const auto x = torch::randn({2, 3, 12});
  EXPECT_TRUE(torch::equal(join_streams(split_streams(x, 4)), x));
  EXPECT_EQ(split_streams(x, 4).sizes(), (std::vector<int64_t>{2, 3, 4, 3}));
  EXPECT_THROW(split_streams(x, 5), Error);
}

TEST(Streams, CollectAndSpreadAreRowAndColumnOfAMix) {
  const auto x = torch::randn({2, 3, 4, 5}, torch::kFloat64);
  const auto weight = torch::randn({2, 3, 4}, torch::kFloat64);
  const auto collected = collect_streams(weight, x);
  const auto by_hand = (weight.unsqueeze(-1) * x).sum(2);
  EXPECT_LT((collected - by_hand).abs().max().item<double>(), 1e-14);
  const auto spread = spread_to_streams(weight, collected);
  EXPECT_TRUE(torch::equal(spread[1][2][3], weight[1][2][3] * collected[1][2]));
}

TEST(Constants, AllPermutationsAreDistinctAndStartWithTheIdentity) {
  const auto all = all_permutations(4).to(torch::kFloat32);
  EXPECT_EQ(all.size(0), 24);
  EXPECT_TRUE(torch::equal(all[0], torch::eye(4)));
  EXPECT_TRUE(torch::equal(all.sum(1), torch::ones({24, 4})));
  EXPECT_TRUE(torch::equal(all.sum(2), torch::ones({24, 4})));
  const auto code = all.flatten(1).matmul(torch::pow(2.0, torch::arange(16, torch::kFloat32)));
  EXPECT_EQ(std::get<0>(at::_unique(code)).numel(), 24);
}

TEST(Constants, HelmertColumnsAreOrthonormalAndSumToZero) {
  for (const int64_t n : {2, 3, 8, 16}) {
    const auto basis = helmert_basis(n);
    const auto gram = basis.t().matmul(basis) - torch::eye(n - 1, torch::kFloat64);
    EXPECT_LT(gram.abs().max().item<double>(), 1e-14);
    EXPECT_LT(basis.sum(0).abs().max().item<double>(), 1e-14);
  }
  EXPECT_THROW(helmert_basis(1), Error);
  EXPECT_THROW(helmert_basis(17), Error);
}

TEST(Pool, CausalMeanSeesThePastOnly) {
  const auto x = torch::tensor({{{1.0}, {3.0}, {8.0}}});
  EXPECT_TRUE(torch::equal(pooled(x, Pool::sequence), torch::tensor({{{4.0}}})));
  EXPECT_TRUE(torch::equal(pooled(x, Pool::causal), torch::tensor({{{1.0}, {2.0}, {4.0}}})));
  EXPECT_TRUE(torch::equal(pooled(x, Pool::token), x));
  EXPECT_EQ(pool_from("causal"), Pool::causal);
  EXPECT_THROW(pool_from("future"), Error);
}

TEST(Layers, RmsNormalizeGivesUnitMeanSquare) {
  const auto y = rms_normalize(5 * torch::randn({3, 64}, torch::kFloat64), 0.0);
  EXPECT_LT((y.square().mean(-1) - 1).abs().max().item<double>(), 1e-12);
}

}  // namespace
}  // namespace geores
