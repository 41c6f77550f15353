// The projections of routes against their composed definitions: values and all gradients.
#include "geores/ops/routed/projected.h"

#include <gtest/gtest.h>

#include "geores/ops/run/fused_check_test.h"

namespace geores {
namespace {

TEST(Projected, EqualComposedWithScalesOfEveryShape) {
  torch::manual_seed(5);
  for (const bool layer : {false, true})
    expect_fused_equals_composed(
        {random({2, 7, 8}), random({3, 8}), random({3}), random({1}), random({8, 8}),
         random({4, 2}), random({4, 1}), random({2, 8}), random({2}), random({8}), random({8})},
        [layer](const Tensors& t) {
          const NormSpec norm{.layer = layer, .weight = t[9], .bias = layer ? t[10] : Tensor()};
          const auto [raw, skip] = projected(
              t[0], norm, {{t[1], t[2], t[3]}, {t[4], t[5], t[6]}, {t[7], t[8], Tensor()}});
          return Tensors{raw, skip * 2, t[10] * 1};
        },
        layer ? "behind a LayerNorm" : "behind an RMSNorm", 1e-4);
}

TEST(Projected, SigmoidsAreThoseOfTheSameRawValues) {
  torch::manual_seed(6);
  const auto x = torch::randn({2, 5, 12}, torch::kFloat64);
  const std::vector<ProjectionWeights> projections = {
      {torch::randn({3, 12}, x.options()), torch::randn({3}, x.options()), Tensor()},
      {torch::randn({3, 12}, x.options()), torch::randn({3}, x.options()), Tensor()},
      {torch::randn({9, 12}, x.options()), torch::randn({3, 3}, x.options()), Tensor()}};
  const auto raw = projected(x, {.layer = false}, projections).projected;
  const auto [routes, skip] = projected_sigmoids(x, {.layer = false}, projections, 3, 0.25);
  EXPECT_TRUE(torch::equal(routes.read, torch::sigmoid(raw.slice(-1, 0, 3)) + 0.25));
  EXPECT_TRUE(torch::equal(routes.write, 2 * torch::sigmoid(raw.slice(-1, 3, 6))));
  EXPECT_TRUE(torch::equal(routes.others, raw.slice(-1, 6)));
  EXPECT_TRUE(torch::equal(skip, x));
}

TEST(Projected, LinearMapsStandSideBySide) {
  torch::manual_seed(7);
  expect_fused_equals_composed(
      {random({2, 5, 6}), random({1, 6}), random({1}), random({4, 6}), random({4})},
      [](const Tensors& t) {
        return Tensors{linear_maps(t[0], {{t[1], t[2]}, {t[3], t[4]}})};
      },
      "linear maps", 1e-4);
  const auto x = torch::randn({1, 2, 3}), w = torch::randn({2, 3}), b = torch::randn({2});
  const auto both = linear_maps(x, {{w, b}, {2 * w, 2 * b}});
  EXPECT_LT((both.slice(-1, 2) - 2 * both.slice(-1, 0, 2)).abs().max().item<double>(), 1e-5);
}

}  // namespace
}  // namespace geores
