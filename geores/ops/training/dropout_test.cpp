#include "geores/ops/training/dropout.h"
#include "geores/ops/run/fused_check_test.h"

#include <gtest/gtest.h>

namespace geores {
namespace {

Dropout at_step(int64_t step, int64_t first_row = 0) {
  return {.rate = 0.3,
          .seed = 7,
          .step = torch::full({1}, step, torch::kInt64),
          .first_row = first_row};
}

Dropout on(const torch::Device& device, Dropout dropout) {
  dropout.step = dropout.step.to(device);
  return dropout;
}

// Masks are equal element by element; kept values may differ in the last digit.
void expect_kernel_is_composed(const torch::Device& device, torch::ScalarType type,
                               double tolerance) {
  for (const auto& shape : {std::vector<int64_t>{3, 40, 17}, {2, 8, 64}, {1, 1}, {0, 4}})
    for (const auto& [step, first_row, site] :
         {std::tuple<int64_t, int64_t, int64_t>{5, 2, 9}, {0, 0, 0}, {4999, 700, 18}}) {
      const auto dropout = on(device, at_step(step, first_row));
      const auto x = torch::randn(shape, torch::kFloat64).to(device, type).requires_grad_(true);
      const auto cotangent = torch::randn(shape, torch::kFloat64).to(device, type);
      const auto both = [&](const Tensor& y) {
        return std::pair(y.detach(), torch::autograd::grad({(y * cotangent).sum()}, {x})[0]);
      };
      const auto fused = both(dropped(x, dropout, site)),
                 composed = both(composed_dropped(x, dropout, site));
      for (const auto& [is, wanted] :
           {std::pair(fused.first, composed.first), std::pair(fused.second, composed.second)}) {
        EXPECT_TRUE(torch::equal(is == 0, wanted == 0)) << device << " " << type << " " << shape;
        EXPECT_TRUE(torch::allclose(is, wanted, tolerance, 0))
            << device << " " << type << " " << shape << " step " << step;
      }
    }
}

TEST(Dropout, KernelIsComposedWithItsGradient) {
  for (const auto type : {torch::kFloat32, torch::kFloat64})
    expect_kernel_is_composed(torch::kCPU, type, 1e-6);
}

TEST(Dropout, KernelOnAGpuIsComposedWithItsGradient) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const auto type : {torch::kFloat32, torch::kFloat64})
    expect_kernel_is_composed(gpu(), type, 1e-6);
  expect_kernel_is_composed(gpu(), torch::kBFloat16, 1.0 / 128);
  const auto x = torch::randn({5, 333});
  EXPECT_TRUE(torch::allclose(dropped(x.to(gpu()), on(gpu(), at_step(3)), 4).cpu(),
                              dropped(x, at_step(3), 4), 1e-6, 0))
      << "the CPU's mask";
}

// As a recorded step requires: the kernel reads the number from device memory when it runs.
TEST(Dropout, MaskFollowsItsStep) {
  const auto dropout = at_step(3);
  const auto x = torch::ones({8, 50}).requires_grad_(true);
  const auto at_three = dropped(x, dropout, 4);
  dropout.step.fill_(6);
  EXPECT_TRUE(torch::equal(dropped(x, dropout, 4), dropped(x, at_step(6), 4)));
  EXPECT_TRUE(torch::equal(at_three, dropped(x, at_step(3), 4)));
  EXPECT_THROW(at_three.sum().backward(), c10::Error) << "its mask is another step's by now";
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
