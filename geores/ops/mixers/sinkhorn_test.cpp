#include "geores/ops/mixers/sinkhorn.h"

#include <gtest/gtest.h>

#include "geores/base/error.h"
#include "geores/manifold/algebra/random.h"
#include "geores/manifold/sinkhorn.h"
#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/run/kernel_choice.h"
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

// mHC's initial state. The iteration converges slowly there, so the forward pass needs many.
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

// In both forms and both orders, the sweeps of manifold/.
TEST(SinkhornOp, GaussSeidelGradientIsThatOfSixteenSweeps) {
  manifold::SplitMix64 random(6);
  for (const double spread : {0.1, 1.0, 3.0})
    for (const auto form : {Form::stock, Form::fused}) {
      const ExecutionScope scope(form);
      const auto logits =
          (spread * torch::randn({4, 4}, torch::kFloat64) + 6 * torch::eye(4, torch::kFloat64) - 6)
              .requires_grad_(true);
      const auto cotangent = torch::randn({4, 4}, torch::kFloat64);
      const auto matrix = [](const Tensor& x) {
        manifold::Matrix<double, 4> m{};
        for (int i = 0; i < 4; ++i)
          for (int j = 0; j < 4; ++j) m(i, j) = x[i][j].item<double>();
        return m;
      };
      const auto l = matrix(logits), s = matrix(cotangent);
      const auto wanted = manifold::sinkhorn_backward_gauss_seidel(
          l, manifold::sinkhorn(l), s, static_cast<int>(kGaussSeidelSweeps));
      const auto p = sinkhorn(logits, {20, SinkhornGradient::gauss_seidel});
      (p * cotangent).sum().backward();
      const auto rows =
          sinkhorn(logits.detach().t(), {20, SinkhornGradient::implicit, SinkhornOrder::rows_last});
      EXPECT_TRUE(torch::allclose(p.detach(), rows.t(), 1e-12, 1e-12));
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
          EXPECT_NEAR(logits.grad()[i][j].item<double>(), wanted(i, j), 1e-12);
    }
}

// N(0, 1) logits of four streams: sixteen sweeps are enough there; near the identity they are not
// (manifold/sinkhorn_test.cpp).
TEST(SinkhornOp, SixteenSweepsAreAccurateForMixedLogits) {
  torch::manual_seed(7);
  const auto start = torch::randn({500, 4, 4}, torch::kFloat64), s = torch::randn_like(start);
  const auto gradient = [&](SinkhornGradient kind) {
    auto logits = start.clone().requires_grad_(true);
    (sinkhorn(logits, {200, kind}) * s).sum().backward();
    return logits.grad();
  };
  const auto exact = gradient(SinkhornGradient::implicit);
  const auto error = (gradient(SinkhornGradient::gauss_seidel) - exact).norm() / exact.norm();
  RecordProperty("relative_error", std::to_string(error.item<double>()));
  EXPECT_NEAR(error.item<double>(), 9e-5, 5e-5);
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

TEST(SinkhornOp, FusedEqualsComposed) {
  torch::manual_seed(7);
  for (const int64_t n : {2, 3, 4, 8, 16}) {
    const auto what = "n " + std::to_string(n);
    expect_fused_equals_composed(
        {0.5 * random({2, 9, n, n})},
        [](const Tensors& t) {
          return Tensors{sinkhorn(t[0], {60, SinkhornGradient::implicit})};
        },
        "sinkhorn " + what, 1e-4);
    // The same numbers where the rows do not sum to 1 yet.
    expect_fused_equals_composed(
        {random({2, 9, n, n})},
        [](const Tensors& t) {
          return Tensors{sinkhorn(t[0], {2, SinkhornGradient::implicit})};
        },
        "sinkhorn stopped early, " + what, 1e-4);
    expect_fused_equals_composed(
        {random({2, 9, n, n})},
        [](const Tensors& t) { return Tensors{guarded_sinkhorn(t[0], 20)}; },
        "guarded_sinkhorn " + what, 1e-4);
    for (const int64_t iterations : {1, 20})
      expect_fused_equals_composed(
          {random({2, 9, n, n})},
          [&](const Tensors& t) { return Tensors{softmax_sinkhorn(t[0], iterations, 1e-6)}; },
          "softmax_sinkhorn " + what, 1e-4);
  }
}

// Logits that differ by up to 15, with some rows far above others: nothing is clamped.
TEST(SinkhornOp, WithoutABoundFusedEqualsComposed) {
  torch::manual_seed(7);
  for (const int64_t n : {2, 4, 8})
    for (const auto order : {SinkhornOrder::rows_last, SinkhornOrder::columns_last})
      expect_fused_equals_composed(
          {0.5 * random({2, 9, n, n}) + 15 * random({2, 9, n, 1})},
          [&](const Tensors& t) {
            return Tensors{sinkhorn(t[0], {.iterations = 60, .order = order, .logit_bound = 0})};
          },
          "sinkhorn without a bound, n " + std::to_string(n), 1e-4);
}

// Logits on both sides of a bound, and more iterations than a window of the gradient.
TEST(SinkhornOp, UnrolledFusedEqualsComposed) {
  torch::manual_seed(7);
  for (const int64_t n : {2, 3, 4, 8, 16})
    for (const auto order : {SinkhornOrder::rows_last, SinkhornOrder::columns_last})
      for (const double bound : {0.0, 2.0})
        for (const int64_t iterations : {1, 50})
          expect_fused_equals_composed(
              {1.5 * random({2, 9, n, n})},
              [&](const Tensors& t) {
                return Tensors{
                    sinkhorn(t[0], {iterations, SinkhornGradient::unrolled, order, bound})};
              },
              "unrolled sinkhorn, n " + std::to_string(n) + ", bound " + std::to_string(bound),
              1e-4);
}

// The kernel in float32 against log space in float64, the largest difference of any entry of 400
// matrices. At 40 times normal logits some rows spread over more than the range of 80 below their
// largest logit, and of those matrices a part differs.
TEST(SinkhornOp, DivisionsInFloatAreAsExactAsLogSpace) {
  struct Row {
    const char* name;
    double diagonal, scale, forward, backward;
    int64_t differ;
  };
  for (const auto& row :
       {Row{"mHC's start", 8, 0, 2e-7, 5e-8, 0}, Row{"normal", 0, 1, 5e-7, 5e-7, 0},
        Row{"5 times", 0, 5, 5e-7, 5e-7, 0}, Row{"10 times", 0, 10, 5e-7, 5e-7, 0},
        Row{"20 times", 0, 20, 5e-7, 5e-7, 0}, Row{"40 times", 0, 40, 5e-7, 5e-7, 20}}) {
    torch::manual_seed(12);
    const auto logits =
        (row.scale * random({400, 4, 4}) + row.diagonal * (torch::eye(4, torch::kFloat64) - 1))
            .to(torch::kFloat32);
    const auto f = [](const Tensors& t) {
      return Tensors{sinkhorn(t[0], {20, SinkhornGradient::unrolled, SinkhornOrder::rows_last, 0})};
    };
    const auto kernel = values_and_gradients({logits}, f, Form::fused),
               exact = values_and_gradients({logits.to(torch::kFloat64)}, f, Form::composed);
    const auto apart = [&](size_t i) { return (kernel[i] - exact[i]).abs().amax({1, 2}); };
    const auto differ =
        ((apart(0) > row.forward) | (apart(1) > row.backward)).sum().item<int64_t>();
    EXPECT_LE(differ, row.differ) << row.name;
    RecordProperty(std::string(row.name) + ", matrices that differ", static_cast<int>(differ));
    RecordProperty(std::string(row.name) + ", forward",
                   std::to_string(apart(0).max().item<double>() * 1e9));
    RecordProperty(std::string(row.name) + ", gradient",
                   std::to_string(apart(1).max().item<double>() * 1e9));
    if (row.differ == 0) continue;
    EXPECT_GT(differ, 0) << "a matrix beyond the range";
    EXPECT_TRUE(torch::isfinite(kernel[0]).all().item<bool>());
    EXPECT_TRUE(torch::isfinite(kernel[1]).all().item<bool>());
  }
}

// Logits of streams that separate into blocks, and these into blocks again: between streams j and k
// they are −far · (number of streams after both, less one). `order` permutes the streams.
Tensor nested_cuts(int64_t n, double far, const std::vector<int64_t>& order) {
  auto logits = torch::zeros({n, n}, torch::kFloat64);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t k = 0; k < n; ++k)
      if (j != k) logits[order[j]][order[k]] = -far * double(n - 2 - std::min({j, k, n - 2}));
  return logits;
}

// Against float64, with kernels (3, 4, 8, 16) and without (5, 6).
TEST(SinkhornOp, GradientInFloatKeepsItsDigitsWhereStreamsAreCutOff) {
  torch::manual_seed(8);
  for (const int64_t n : {3, 4, 5, 6, 8, 16})
    for (const double far : {6.0, 14.0, 28.0})
      for (const bool reversed : {false, true})
        for (const auto form : {Form::fused, Form::composed}) {
          const ExecutionScope scope(form);
          std::vector<int64_t> order;
          for (int64_t i = 0; i < n; ++i) order.push_back(reversed ? n - 1 - i : i);
          const auto start = nested_cuts(n, far, order) + 0.3 * random({3, n, n});
          const auto cotangent = random({3, n, n});
          const SinkhornSpec spec{.iterations = 60, .logit_bound = 0};
          const auto gradient = [&](torch::Dtype type) {
            const auto logits = start.to(torch::kFloat32).to(type).requires_grad_(true);
            (sinkhorn(logits, spec) * cotangent.to(torch::kFloat32).to(type)).sum().backward();
            return logits.grad().to(torch::kFloat64);
          };
          const auto expected = gradient(torch::kFloat64);
          EXPECT_LT((gradient(torch::kFloat32) - expected).abs().max().item<double>(),
                    2e-5 * expected.abs().max().item<double>())
              << "n " << n << ", far " << far << (reversed ? ", reversed" : "");
        }
}

// Stream 0 is separated from the others by much lower logits: the others' gradient is that of their
// own 3 × 3 matrix, at any distance.
TEST(SinkhornOp, StreamsThatAreCutOffHaveTheGradientOfTheRest) {
  torch::manual_seed(9);
  for (const auto type : {torch::kFloat32, torch::kFloat64})
    for (const double far : {25.0, 40.0, 90.0, 1e4})
      for (const auto order : {SinkhornOrder::rows_last, SinkhornOrder::columns_last}) {
        const SinkhornSpec spec{.iterations = 60, .order = order, .logit_bound = 0};
        const auto rest = (0.5 * random({2, 9, 3, 3})).to(type).requires_grad_(true);
        auto filled = torch::full({2, 9, 4, 4}, -far, torch::dtype(type));
        filled.select(-1, 0).select(-1, 0).zero_();
        filled.slice(-1, 1).slice(-2, 1).copy_(rest.detach());
        const auto logits = filled.requires_grad_(true);
        const auto cotangent = random({2, 9, 4, 4}).to(type);
        (sinkhorn(logits, spec) * cotangent).sum().backward();
        (sinkhorn(rest, spec) * cotangent.slice(-1, 1).slice(-2, 1)).sum().backward();
        const auto difference = logits.grad().slice(-1, 1).slice(-2, 1) - rest.grad();
        EXPECT_LT(difference.abs().max().item<double>(), 2e-5) << far;
        EXPECT_TRUE(torch::isfinite(logits.grad()).all().item<bool>()) << far;
      }
}

// Where the kernel runs on a CPU.
TEST(SinkhornOp, KernelsRunWhereTheyShould) {
  const auto missing = [](int64_t n, const SinkhornSpec& spec) {
    Explanation explanation;
    auto explained = execution();
    explained.explanation = &explanation;
    const ExecutionScope scope(explained);
    sinkhorn(torch::zeros({1, n, n}), spec);
    return explanation.lines().empty() ? "nothing was asked" : explanation.lines()[0].missing;
  };
  const auto unrolled = SinkhornGradient::unrolled;
  for (const double bound : {0.0, 2.0})
    for (const auto order : {SinkhornOrder::rows_last, SinkhornOrder::columns_last}) {
      EXPECT_EQ(missing(4, {256, unrolled, order, bound}), "");
      EXPECT_NE(missing(4, {257, unrolled, order, bound}), "");
      EXPECT_NE(missing(5, {20, unrolled, order, bound}), "");
    }
  EXPECT_EQ(missing(4, {257, SinkhornGradient::implicit, SinkhornOrder::rows_last, 0}), "");
  EXPECT_EQ(missing(4, {257, SinkhornGradient::implicit}), "");
  EXPECT_NE(missing(4, {20, SinkhornGradient::gauss_seidel}), "");
  EXPECT_EQ(missing(4, guarded_sinkhorn_spec(20)), "");
}

// A NaN spreads over the whole of its matrix, and to no other matrix.
TEST(SinkhornOp, KeepsNotANumber) {
  auto logits = torch::zeros({1, 3, 4, 4});
  logits[0][1][2][0] = std::nanf("");
  const auto p = sinkhorn(logits, {.order = SinkhornOrder::rows_last, .logit_bound = 0});
  EXPECT_TRUE(torch::isnan(p.select(1, 1)).all().item<bool>());
  EXPECT_TRUE(torch::isfinite(p.select(1, 0)).all().item<bool>());
  EXPECT_TRUE(torch::isfinite(p.select(1, 2)).all().item<bool>());
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
