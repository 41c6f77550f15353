#include "lab/diagnostics/measures.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/testing/testing.h"

namespace geores {
namespace {

const auto kDouble = torch::kFloat64;

double number(const Tensor& x) { return x.item<double>(); }
double largest(const Tensor& x) { return number(x.abs().max()); }

Tensor orthogonal(int64_t n) {
  return std::get<0>(torch::linalg_qr(torch::randn({n, n}, kDouble)));
}

TEST(EffectiveRank, OfARankOneMatrixIsOne) {
  torch::manual_seed(1);
  const auto tokens = torch::outer(torch::randn({9}, kDouble), torch::randn({7}, kDouble));
  EXPECT_NEAR(number(effective_rank(tokens)), 1.0, 1e-10);
}

TEST(EffectiveRank, OfOrthogonalTokensOfEqualLengthIsTheirNumber) {
  torch::manual_seed(2);
  const auto tokens = 3.0 * orthogonal(8).slice(0, 0, 5);
  EXPECT_NEAR(number(effective_rank(tokens)), 5.0, 1e-10);
}

TEST(EffectiveRank, IsTheExponentialOfTheEntropyOfNormalisedSingularValues) {
  torch::manual_seed(3);
  const auto sigma = torch::tensor({3.0, 1.0, 0.0}, kDouble);
  const auto tokens = orthogonal(3).matmul(torch::diag(sigma)).matmul(orthogonal(3));
  const auto entropy = -0.75 * std::log(0.75) - 0.25 * std::log(0.25);
  EXPECT_NEAR(number(effective_rank(tokens)), std::exp(entropy), 1e-10);
}

// Tall, wide and nearly singular: the same as from a decomposition.
TEST(EffectiveRank, IsThatOfTheSingularValues) {
  torch::manual_seed(4);
  for (const auto& [rows, columns] : {std::pair{40, 24}, {24, 40}}) {
    const auto tokens = torch::randn({rows, columns}, kDouble) * torch::logspace(0, -9, columns);
    const auto sigma = torch::linalg_svdvals(tokens);
    const auto p = sigma / sigma.sum();
    const auto expected = number(torch::exp(-torch::xlogy(p, p).sum()));
    EXPECT_NEAR(number(effective_rank(tokens)), expected, 1e-10);
  }
}

TEST(EffectiveRank, OfTheZeroMatrixIsZeroAndEachMatrixOfABatchCountsAlone) {
  const auto batch = torch::stack({torch::zeros({4, 4}, kDouble), torch::eye(4, kDouble)});
  EXPECT_EQ(number(effective_rank(batch)[0]), 0.0);
  EXPECT_NEAR(number(effective_rank(batch)[1]), 4.0, 1e-12);
}

TEST(EffectiveRank, RelativeToTheLargestPossibleIsThatOfTheSingularValues) {
  torch::manual_seed(5);
  for (const auto& [rows, columns] : {std::pair{40, 24}, {24, 40}, {33, 33}})
    for (const auto smallest : {0.0, -3.0, -9.0}) {
      const auto states = torch::randn({3, rows, columns}, kDouble) *
                          torch::logspace(0, smallest, columns, 10.0, kDouble);
      const auto exact = effective_rank(states) / std::min(rows, columns);
      EXPECT_TRUE(torch::allclose(relative_rank(states), exact, 0, 1e-6))
          << rows << " x " << columns << ", " << smallest;
    }
  const auto one = torch::outer(torch::randn({30}, kDouble), torch::randn({20}, kDouble));
  EXPECT_NEAR(number(relative_rank(one)), 1.0 / 20, 1e-12);
  EXPECT_EQ(number(relative_rank(torch::zeros({4, 4}))), 0.0);
}

TEST(StreamCosine, IsOneForCopiesZeroForOrthogonalAndLeavesOutTheDiagonal) {
  EXPECT_NEAR(number(stream_cosine(torch::ones({3, 5}))), 1.0, 1e-12);
  EXPECT_NEAR(number(stream_cosine(2 * torch::eye(4))), 0.0, 1e-12);
  EXPECT_NEAR(number(stream_cosine(torch::tensor({{1.0, 0.0}, {-3.0, 0.0}}))), -1.0, 1e-12);
  // Pairs (1, 2), (1, 3), (2, 3): 1, 0, 0.
  EXPECT_NEAR(number(stream_cosine(torch::tensor({{1.0, 0.0}, {2.0, 0.0}, {0.0, 1.0}}))), 1.0 / 3,
              1e-12);
}

TEST(StreamCosine, OfAZeroStreamIsZeroNotNaN) {
  EXPECT_EQ(number(stream_cosine(torch::tensor({{1.0, 1.0}, {0.0, 0.0}}))), 0.0);
  EXPECT_NE(refusal([] { stream_cosine(torch::ones({1, 5})); }), "");
}

TEST(TokenRms, IsTheRootOfTheMeanSquareOfEachToken) {
  const auto rms = token_rms(torch::tensor({{3.0, 4.0}, {1.0, -1.0}}));
  EXPECT_NEAR(number(rms[0]), std::sqrt(12.5), 1e-12);
  EXPECT_NEAR(number(rms[1]), 1.0, 1e-12);
}

TEST(OrthogonalityDefect, IsTheSpectralNormOfTheGramMatrixMinusIdentity) {
  torch::manual_seed(4);
  const auto a = torch::randn({3, 5, 5}, kDouble);
  const auto gram = a.transpose(-1, -2).matmul(a) - torch::eye(5, kDouble);
  const auto expected = torch::linalg_matrix_norm(gram, 2);
  EXPECT_LT(largest(orthogonality_defect(a) - expected), 1e-12);
  EXPECT_LT(largest(orthogonality_defect(orthogonal(6))), 1e-13);
  // A halved rotation loses length: |¼ − 1|, not 0.
  EXPECT_NEAR(number(orthogonality_defect(0.5 * orthogonal(6))), 0.75, 1e-12);
}

TEST(OrthogonalityError, IsTheLargestEntryOverTheBatch) {
  auto batch = torch::stack({torch::eye(3, kDouble), torch::eye(3, kDouble)});
  EXPECT_EQ(largest_orthogonality_error(batch), 0.0);
  batch[1][0][1] = 1e-3;
  EXPECT_NEAR(largest_orthogonality_error(batch), 1e-3, 1e-12);
}

TEST(Jacobian, OfALinearMapIsItsMatrixWithOutputsInRows) {
  torch::manual_seed(5);
  const auto m = torch::randn({4, 4}, kDouble);
  const auto j = jacobian([&](const Tensor& x) { return x.matmul(m.t()); },
                          torch::randn({1, 3, 4}, kDouble), 1);
  EXPECT_LT(largest(j - m), 1e-13);
}

TEST(Jacobian, EqualsCentralDifferencesAtOnePosition) {
  torch::manual_seed(6);
  const auto map = [weight = torch::randn({6, 6}, kDouble)](const Tensor& x) {
    return torch::tanh(x.flatten(2).matmul(weight)).cumsum(1).view_as(x) * x.exp();
  };
  const auto state = torch::randn({1, 4, 2, 3}, kDouble);  // streams as an axis
  const auto j = jacobian(map, state, 2, /*rows=*/4);      // 6 rows: a full and a partial chunk
  const double step = 1e-5;
  for (int64_t column = 0; column < 6; ++column) {
    auto up = state.clone(), down = state.clone();
    up.flatten(2)[0][2][column] += step;
    down.flatten(2)[0][2][column] -= step;
    const auto difference = (map(up) - map(down)).flatten(2)[0][2] / (2 * step);
    EXPECT_LT(largest(j.select(1, column) - difference), 1e-8) << column;
  }
}

TEST(Jacobian, WorksWithoutGradientModeAndLeavesParametersAlone) {
  torch::manual_seed(7);
  const torch::NoGradGuard no_gradient;
  const Tensor weight = torch::randn({4, 4}, kDouble).requires_grad_(true);
  const auto j = jacobian([&](const Tensor& x) { return x.matmul(weight); },
                          torch::randn({1, 2, 4}, kDouble), 0);
  EXPECT_LT(largest(j - weight.t()), 1e-13);
  EXPECT_FALSE(weight.grad().defined());
  EXPECT_FALSE(torch::GradMode::is_enabled());
}

TEST(Jacobian, RefusesSeveralSequencesAndPositionsThatAreNotThere) {
  const auto same = [](const Tensor& x) { return x; };
  EXPECT_NE(refusal([&] { jacobian(same, torch::ones({2, 3, 4}), 0); }), "");
  EXPECT_EQ(refusal([&] {
              jacobian(same, torch::ones({1, 3, 4}), 3);
            }),
            "[jacobian] position 3 is not one of 3 positions");
}

}  // namespace
}  // namespace geores
