#include "geores/ops/mixers/sinkhorn.h"

#include <gtest/gtest.h>

#include "geores/base/error.h"
#include "geores/testing/gradient_check.h"

namespace geores {
namespace {

TEST(SinkhornOp, RowsAndColumnsSumToOne) {
  torch::manual_seed(1);
  for (const int64_t n : {1, 2, 4, 7, 8}) {
    const auto p =
        sinkhorn(torch::randn({5, n, n}, torch::kFloat64), {100, SinkhornGradient::implicit});
    EXPECT_LT((p.sum(-1) - 1).abs().max().item<double>(), 1e-12);
    EXPECT_LT((p.sum(-2) - 1).abs().max().item<double>(), 1e-12);
    EXPECT_GT(p.min().item<double>(), 0.0);
  }
}

TEST(SinkhornOp, ImplicitGradientIsThatOfTheConvergedMatrix) {
  torch::manual_seed(2);
  for (const int64_t n : {2, 3, 4, 8}) {
    auto logits = torch::randn({3, n, n}, torch::kFloat64).requires_grad_(true);
    const auto check = check_gradients(
        [&] {
          return sinkhorn(logits, {300, SinkhornGradient::implicit});
        },
        {{"logits", logits}}, 4);
    EXPECT_LT(check.error, 1e-8) << "n = " << n;
  }
}

// Where mHC starts. The iteration converges slowly there, so the forward needs many.
TEST(SinkhornOp, ImplicitGradientHoldsNearTheIdentity) {
  torch::manual_seed(3);
  auto logits =
      (6 * torch::eye(4, torch::kFloat64) - 6 + 0.1 * torch::randn({2, 4, 4}, torch::kFloat64))
          .requires_grad_(true);
  const auto check = check_gradients(
      [&] {
        return sinkhorn(logits, {4000, SinkhornGradient::implicit});
      },
      {{"logits", logits}}, 2);
  EXPECT_LT(check.error, 1e-6);
}

TEST(SinkhornOp, UnrolledGradientIsThatOfTheIterationsRun) {
  torch::manual_seed(4);
  for (const int64_t iterations : {1, 2, 20}) {
    auto logits = (2 * torch::randn({3, 4, 4}, torch::kFloat64)).requires_grad_(true);
    const auto check = check_gradients(
        [&] {
          return sinkhorn(logits, {iterations, SinkhornGradient::unrolled});
        },
        {{"logits", logits}}, 4);
    EXPECT_LT(check.error, 1e-8) << iterations << " iterations";
  }
}

TEST(SinkhornOp, TheTwoGradientsDifferForFewIterations) {
  torch::manual_seed(5);
  const auto start = 2 * torch::randn({4, 4}, torch::kFloat64);
  const auto cotangent = torch::randn({4, 4}, torch::kFloat64);
  const auto gradient = [&](SinkhornGradient kind) {
    auto logits = start.clone().requires_grad_(true);
    (sinkhorn(logits, {2, kind}) * cotangent).sum().backward();
    return logits.grad();
  };
  const auto implicit = gradient(SinkhornGradient::implicit);
  const auto unrolled = gradient(SinkhornGradient::unrolled);
  EXPECT_GT((implicit - unrolled).norm().item<double>(), 1e-3 * unrolled.norm().item<double>());
}

TEST(SinkhornOp, LogitsBeyondTheClampGetNoGradient) {
  auto logits = torch::tensor({{50.0, 0.0}, {0.0, 0.0}}, torch::kFloat64).requires_grad_(true);
  const auto p = sinkhorn(logits, {50, SinkhornGradient::implicit});
  (p * torch::tensor({{1.0, 2.0}, {0.5, 0.0}}, torch::kFloat64)).sum().backward();
  EXPECT_EQ(logits.grad()[0][0].item<double>(), 0.0);
  EXPECT_TRUE(torch::isfinite(p).all().item<bool>());
}

// Weights 1 3 / 2 1, once.
TEST(SinkhornOp, WhatComesLastIsExact) {
  const auto logits = torch::tensor({{1.0, 3.0}, {2.0, 1.0}}, torch::kFloat64).log();
  const auto rows_last = sinkhorn(logits, {.iterations = 1, .order = SinkhornOrder::rows_last});
  const auto columns_last =
      sinkhorn(logits, {.iterations = 1, .order = SinkhornOrder::columns_last});
  const auto by_hand = torch::tensor({{(1 / 3.0) / (1 / 3.0 + 0.75), 0.75 / (1 / 3.0 + 0.75)},
                                      {(2 / 3.0) / (2 / 3.0 + 0.25), 0.25 / (2 / 3.0 + 0.25)}},
                                     torch::kFloat64);
  EXPECT_LT((rows_last - by_hand).abs().max().item<double>(), 1e-14);
  EXPECT_LT((rows_last.sum(1) - 1).abs().max().item<double>(), 1e-14);
  EXPECT_GT((rows_last.sum(0) - 1).abs().max().item<double>(), 1e-2);
  EXPECT_LT((columns_last.sum(0) - 1).abs().max().item<double>(), 1e-14);
  EXPECT_GT((columns_last.sum(1) - 1).abs().max().item<double>(), 1e-2);
}

TEST(SinkhornOp, WithoutABoundEveryLogitHasAGradient) {
  torch::manual_seed(6);
  for (const auto order : {SinkhornOrder::rows_last, SinkhornOrder::columns_last})
    for (const auto kind : {SinkhornGradient::implicit, SinkhornGradient::unrolled}) {
      auto logits = torch::tensor({{12.0, 13.0, 11.0}, {14.0, 12.0, 13.0}, {-11.0, -12.0, -13.0}},
                                  torch::kFloat64)
                        .requires_grad_(true);
      const SinkhornSpec spec{
          .iterations = 100, .gradient = kind, .order = order, .logit_bound = 0};
      const auto check =
          check_gradients([&] { return sinkhorn(logits, spec); }, {{"logits", logits}}, 2);
      EXPECT_LT(check.error, 1e-7);
      (sinkhorn(logits, spec) * torch::randn({3, 3}, torch::kFloat64)).sum().backward();
      EXPECT_GT(logits.grad().abs().min().item<double>(), 0.0);
    }
}

// softmax over columns of weights 1 3 / 2 1 is 1/3 3/4 / 2/3 1/4.
TEST(SinkhornOp, TheFormOfDeepSeekV4ByHand) {
  const double guard = 0.125;
  auto logits = torch::tensor({{1.0, 3.0}, {2.0, 1.0}}, torch::kFloat64).log().requires_grad_(true);
  const double a = 1 / 3.0 + guard, b = 0.75 + guard, c = 2 / 3.0 + guard, d = 0.25 + guard;
  const auto once = torch::tensor(
      {{a / (a + b + guard), b / (a + b + guard)}, {c / (c + d + guard), d / (c + d + guard)}},
      torch::kFloat64);
  EXPECT_LT((softmax_sinkhorn(logits, 1, guard) - once).abs().max().item<double>(), 1e-14);
  const auto columns = once / (once.sum(0, true) + guard);
  const auto twice = columns / (columns.sum(1, true) + guard);
  EXPECT_LT((softmax_sinkhorn(logits, 2, guard) - twice).abs().max().item<double>(), 1e-14);
  const auto check =
      check_gradients([&] { return softmax_sinkhorn(logits, 3, 1e-6); }, {{"logits", logits}}, 2);
  EXPECT_LT(check.error, 1e-8);
}

TEST(SinkhornOp, RefusesWhatItCannotDo) {
  const auto square = torch::zeros({2, 2});
  EXPECT_THROW(sinkhorn(square, {0, SinkhornGradient::implicit}), Error);
  EXPECT_THROW(sinkhorn(torch::zeros({2, 3}), {5, SinkhornGradient::implicit}), Error);
  EXPECT_THROW(sinkhorn_gradient_from("exact"), Error);
  EXPECT_THROW(sinkhorn_order_from("rows"), Error);
  EXPECT_THROW(sinkhorn(square, {.logit_bound = 30}), Error);
}

}  // namespace
}  // namespace geores
