#include "geores/ops/dense/products.h"

#include <gtest/gtest.h>

#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/gradients/weight_gradients.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/fused_check_test.h"

namespace geores {
namespace {

void expect_sum_of_product(const torch::Device& device, torch::ScalarType factors,
                           torch::ScalarType type, double limit) {
  torch::manual_seed(7);
  const auto a = torch::randn({13, 9}).to(device, factors),
             b = torch::randn({13, 5}).to(device, factors);
  const auto before = torch::randn({9, 5}).to(device, type);
  auto sum = before.clone();
  add_product(a.t(), b, sum);
  const auto exact = [](const Tensor& x) { return x.cpu().to(torch::kFloat64); };
  const auto wanted = exact(before) + exact(a).t().mm(exact(b));
  EXPECT_LT((exact(sum) - wanted).abs().max().item<double>(), limit) << device << factors;
}

TEST(Products, AreAddedToASum) {
  expect_sum_of_product(torch::kCPU, torch::kFloat64, torch::kFloat64, 1e-12);
  expect_sum_of_product(torch::kCPU, torch::kFloat32, torch::kFloat32, 1e-5);
  expect_sum_of_product(torch::kCPU, torch::kBFloat16, torch::kFloat32, 0.1);
  if (!has_gpu()) return;
  expect_sum_of_product(gpu(), torch::kFloat64, torch::kFloat64, 1e-12);
  expect_sum_of_product(gpu(), torch::kFloat32, torch::kFloat32, 2e-2);  // tf32
  expect_sum_of_product(gpu(), torch::kBFloat16, torch::kFloat32, 1e-4);
}

// Small weights go to the side stream, unaligned ones to autograd.
TEST(Products, OfLargeWeightsAreAddedToTheSlotsOfTheirGradients) {
  const auto device = has_gpu() ? gpu() : torch::kCPU;
  const auto a = torch::randn({600, 3}).to(device), b = torch::randn({3, 520}).to(device);
  const auto flat = torch::ones({600 * 520 + 1}).to(device);
  const auto slot = flat.slice(0, 0, 600 * 520).view({600, 520});
  EXPECT_FALSE(slot_product(a, b, torch::kFloat32, slot).defined());
  EXPECT_LT((slot - 1 - a.mm(b)).abs().max().item<double>(), 2e-2);
  EXPECT_EQ(flat[-1].item<double>(), 1);
  const auto other = flat.slice(0, 1).view({600, 520});
  const auto before = flat.clone();
  EXPECT_TRUE(slot_product(a, b, torch::kFloat32, other).defined()) << "not aligned";
  EXPECT_TRUE(slot_product(a, b, torch::kFloat32, {}).defined()) << "no slot";
  const auto small = a.slice(0, 0, 496);
  EXPECT_TRUE(slot_product(small, b, torch::kFloat32, slot.slice(0, 0, 496)).defined());
  EXPECT_TRUE(torch::equal(flat, before));
}

}  // namespace
}  // namespace geores
