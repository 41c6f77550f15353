#include "geores/ops/training/dropout.h"

#include <gtest/gtest.h>

namespace geores {
namespace {

Dropout at_step(int64_t step, int64_t first_row = 0) {
  return {.rate = 0.3,
          .seed = 7,
          .step = torch::full({1}, step, torch::kInt64),
          .first_row = first_row};
}

TEST(Dropout, KernelIsComposedWithItsGradient) {
  for (const auto type : {torch::kFloat32, torch::kFloat64}) {
    const auto x = torch::randn({3, 40, 17}, type).requires_grad_(true);
    const auto cotangent = torch::randn({3, 40, 17}, type);
    const auto both = [&](const Tensor& y) {
      return std::pair(y.detach(), torch::autograd::grad({(y * cotangent).sum()}, {x})[0]);
    };
    const auto [fused, fused_gradient] = both(dropped(x, at_step(5, 2), 9));
    const auto [composed, composed_gradient] = both(composed_dropped(x, at_step(5, 2), 9));
    EXPECT_TRUE(torch::allclose(fused, composed, 1e-6, 0));
    EXPECT_TRUE(torch::allclose(fused_gradient, composed_gradient, 1e-6, 0));
  }
}

TEST(Dropout, DropsItsShareAndKeepsTheMean) {
  const auto y = dropped(torch::ones({100, 1000}), at_step(1), 0);
  EXPECT_NEAR((y == 0).to(torch::kFloat64).mean().item<double>(), 0.3, 0.005);
  EXPECT_NEAR(y.mean().item<double>(), 1.0, 0.01);
  const auto x = torch::randn({2, 3});
  EXPECT_TRUE(dropped(x, {}, 0).is_same(x)) << "off";
}

TEST(Dropout, MaskIsAFunctionOfStepSiteAndElementOfTheBatch) {
  const auto x = torch::ones({8, 50});
  const auto whole = dropped(x, at_step(3), 4);
  EXPECT_TRUE(torch::equal(whole, dropped(x, at_step(3), 4)));
  EXPECT_FALSE(torch::equal(whole, dropped(x, at_step(4), 4)));
  EXPECT_FALSE(torch::equal(whole, dropped(x, at_step(3), 5)));
  const auto second = dropped(x.slice(0, 6, 8), at_step(3, 6), 4);
  EXPECT_TRUE(torch::equal(whole.slice(0, 6, 8), second)) << "a micro-batch";
}

}  // namespace
}  // namespace geores
