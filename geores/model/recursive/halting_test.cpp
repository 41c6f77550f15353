#include "geores/model/recursive/halting.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/model/recursive/puzzle_loss.h"

namespace geores {
namespace {

TEST(Halting, FollowsTheTable) {
  //               steps wants least  halted after it, at most 3 passes
  const int64_t rows[][4] = {{1, 0, 0, 0}, {1, 1, 0, 1}, {1, 1, 2, 0}, {2, 1, 2, 1}, {2, 1, 3, 0},
                             {2, 0, 2, 0}, {3, 0, 0, 1}, {3, 0, 3, 1}, {3, 1, 3, 1}};
  for (const auto& row : rows) {
    const auto one = [&](int i) { return torch::tensor({row[i]}, torch::kInt64); };
    EXPECT_EQ(halted_after(one(0), one(1) == 1, one(2), 3).item<bool>(), row[3] == 1)
        << row[0] << row[1] << row[2];
  }
  // A single pass leaves no decision.
  EXPECT_TRUE(halted_after(torch::ones({1}, torch::kInt64), torch::zeros({1}, torch::kBool),
                           torch::zeros({1}, torch::kInt64), 1)
                  .item<bool>());
}

TEST(Halting, ExplorationIsUniformFromTwoToTheMost) {
  constexpr int64_t rows = 40000, most = 5;
  const auto least = exploration_minimum(first_draws(rows, 3), 0.1, most);
  const auto share = [&](int64_t value) {
    return (least == value).to(torch::kFloat64).mean().item<double>();
  };
  EXPECT_NEAR(share(0), 0.9, 0.01);
  EXPECT_EQ(share(1), 0);
  for (int64_t value = 2; value <= most; ++value) EXPECT_NEAR(share(value), 0.025, 0.005) << value;
  EXPECT_EQ(share(most + 1), 0);
  EXPECT_EQ(exploration_minimum(first_draws(5, 3), 0.0, most).abs().max().item<int64_t>(), 0);
}

TEST(Halting, DrawsAreAFunctionOfRowAndPosition) {
  const auto start = first_draws(1000, 7);
  const auto values = uniform_from(start, 1);
  EXPECT_TRUE(torch::equal(values, uniform_from(start.clone(), 1)));
  EXPECT_TRUE(torch::equal(values.slice(0, 500), uniform_from(start.slice(0, 500), 1)))
      << "a part of the batch draws as the whole one";
  EXPECT_NEAR(values.mean().item<double>(), 0.5, 0.03);
  EXPECT_NEAR(values.std().item<double>(), std::sqrt(1 / 12.0), 0.02);
  EXPECT_GE(values.min().item<double>(), 0);
  EXPECT_LT(values.max().item<double>(), 1);
  const auto correlation = [&](const Tensor& other) {
    return std::abs(((values - 0.5) * (other - 0.5)).mean().item<double>() * 12);
  };
  EXPECT_LT(correlation(uniform_from(start + 1, 1)), 0.1) << "the next draw";
  EXPECT_LT(correlation(uniform_from(start, 2)), 0.1) << "another salt";
  EXPECT_LT(correlation(uniform_from(first_draws(1000, 8), 1)), 0.1) << "another seed";
}

TEST(Stablemax, IsItsDefinitionFarOut) {
  const std::vector<double> logits = {1e6, -1e6, 0.0, 1.0, -3.5};
  const auto s = [](long double x) { return x >= 0 ? x + 1 : 1 / (1 - x); };
  long double sum = 0;
  for (const auto x : logits) sum += s(x);
  const auto x = torch::tensor(logits, torch::kFloat64).repeat({5, 1}).requires_grad_(true);
  const auto losses = stablemax_losses(x, torch::arange(5));
  for (size_t i = 0; i < logits.size(); ++i)
    EXPECT_NEAR(losses[int64_t(i)].item<double>(), double(-std::log(s(logits[i]) / sum)), 1e-12);
  losses.sum().backward();
  EXPECT_TRUE(torch::isfinite(x.grad()).all().item<bool>());
  // float32 logits are converted to float64 first.
  EXPECT_EQ(stablemax_losses(x.detach().to(torch::kFloat32), torch::arange(5)).scalar_type(),
            torch::kFloat64);
  EXPECT_EQ(stablemax_losses(x.detach(), torch::full({5}, -100)).abs().max().item<double>(), 0);
}

TEST(RowScores, CountsWhatIsScored) {
  auto logits = torch::zeros({3, 3, 4}, torch::kFloat64);
  const auto predicted = torch::tensor({{1, 2, 3}, {1, 2, 0}, {0, 0, 0}});
  logits.scatter_(2, predicted.unsqueeze(2), 1.0);
  const auto labels = torch::tensor({{1, 2, -100}, {1, 3, 3}, {-100, -100, -1}});
  const auto q = torch::tensor({2.0, 1.0, -1.0}, torch::kFloat64);
  const auto scores = score_rows(logits, q, labels);
  const auto expect = [](const Tensor& values, const std::vector<double>& wanted) {
    EXPECT_LT((values - torch::tensor(wanted, torch::kFloat64)).abs().max().item<double>(), 1e-12)
        << values;
  };
  expect(scores.exact, {1, 0, 1});  // a row without scored positions is exact
  expect(scores.right_cells, {1, 1.0 / 3, 0});
  expect(scores.q_right, {1, 0, 0});
  expect(scores.scored, {1, 1, 0});
  const auto right = -std::log(2.0 / 5), wrong = -std::log(1.0 / 5);
  expect(scores.lm_loss, {right, (right + 2 * wrong) / 3, 0});
  expect(scores.q_loss,
         {std::log1p(std::exp(-2.0)), std::log1p(std::exp(1.0)), std::log1p(std::exp(1.0))});
}

}  // namespace
}  // namespace geores
