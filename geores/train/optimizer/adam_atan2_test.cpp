#include "geores/train/optimizer/adam_atan2.h"

#include <gtest/gtest.h>

#include <cmath>

#include "geores/base/file.h"
#include "geores/base/json.h"
#include "geores/train/optimizer/schedule.h"
#include "geores/train/optimizer/sign_sgd.h"

namespace geores {
namespace {

struct Values : torch::nn::Module {
  explicit Values(const Tensor& initial) : values(register_parameter("values", initial)) {}
  Tensor values;
};

Tensor numbers(const nlohmann::json& list) {
  return torch::tensor(list.get<std::vector<double>>(), torch::kFloat64);
}

double largest(const Tensor& x) { return x.abs().max().item<double>(); }

// Ten steps of the package that TRM uses: gradients from 1e-20 to 1e6, one always zero, one that
// starts late, one that ends.
TEST(AdamAtan2, EqualsTheReferenceStepByStep) {
  const auto golden = parse_json(
      read_text_file(std::string(GEORES_GOLDEN_DIR) + "/adam_atan2.json"), "adam_atan2.json");
  Values module(numbers(golden["initial"]));
  FlatParameters parameters(module);
  AdamAtan2 optimizer(parameters, {.beta1 = golden["beta1"],
                                   .beta2 = golden["beta2"],
                                   .weight_decay = golden["weight_decay"],
                                   .clip = 0});
  const double base = golden["lr_base"], ratio = golden["lr_min_ratio"];
  const Schedule schedule{.peak = base,
                          .floor = ratio * base,
                          .warmup = golden["lr_warmup_steps"],
                          .total = golden["total_steps"]};
  ASSERT_EQ(golden["gradients"].size(), 10u);
  for (size_t i = 0; i < 10; ++i) {
    const auto t = static_cast<int64_t>(i) + 1;
    const auto lr = schedule.at(t);
    EXPECT_NEAR(lr, golden["lr"][i].get<double>(), 1e-17) << t;
    parameters.gradients().copy_(numbers(golden["gradients"][i]));
    optimizer.step(optimizer.rates(lr, t));
    EXPECT_LT(largest(parameters.values() - numbers(golden["steps"][i]["p"])), 1e-14) << t;
    const auto close = [&](const Tensor& ours, const Tensor& wanted) {
      EXPECT_TRUE(torch::allclose(ours, wanted, 1e-13, 0)) << t << ": " << ours << wanted;
    };
    close(optimizer.first_moment(), numbers(golden["steps"][i]["m"]));
    close(optimizer.second_moment(), numbers(golden["steps"][i]["v"]));
  }
}

TEST(AdamAtan2, StepsDoNotDependOnTheScaleOfGradients) {
  Values module(torch::zeros({4}, torch::kFloat64));
  FlatParameters parameters(module);
  AdamAtan2 optimizer(parameters, {.weight_decay = 0, .clip = 0});
  parameters.gradients().copy_(torch::tensor({0.0, 1e-30, 1e30, -1.0}, torch::kFloat64));
  optimizer.step(optimizer.rates(1.0, 1));
  // atan2((1−β₁) g, √(1−β₂)|g|/√(1−β₂))/(1−β₁) = atan(0.1)/0.1
  const auto step = std::atan(0.1) / 0.1;
  EXPECT_NEAR(step, 0.997, 1e-3);
  const auto wanted = torch::tensor({0.0, -step, -step, step}, torch::kFloat64);
  EXPECT_LT(largest(parameters.values() - wanted), 1e-12);
}

TEST(AdamAtan2, DecaysWhatNeverHadAGradientAndClips) {
  Values module(torch::full({3}, 2.0, torch::kFloat64));
  FlatParameters parameters(module);
  AdamAtan2 optimizer(parameters, {.weight_decay = 0.5, .clip = 1.0});
  parameters.gradients().copy_(torch::tensor({0.0, 3.0, 4.0}, torch::kFloat64));
  const auto norm = optimizer.step(optimizer.rates(0.1, 1));
  EXPECT_NEAR(norm.item<double>(), 5, 1e-12);
  EXPECT_NEAR(parameters.values()[0].item<double>(), 2 * 0.95, 1e-12);
  EXPECT_NEAR(optimizer.first_moment()[2].item<double>(), 0.1 * 4 / (5 + 1e-6), 1e-12);
}

TEST(SignSgd, AddsRowsOfOneIdentifierAndLeavesTheOthers) {
  auto table = torch::arange(8, torch::kFloat64).view({4, 2});
  const auto before = table.clone();
  const auto identifiers = torch::tensor({2, 0, 2});
  const auto gradients = torch::tensor({{1.0, -1.0}, {0.0, 3.0}, {-2.0, 1.0}}, torch::kFloat64);
  sign_sgd_step(table, identifiers, gradients, torch::full({1}, 0.1, torch::kFloat64), 0.5);
  const auto decayed = before * (1 - 0.1 * 0.5);
  auto wanted = before.clone();
  wanted[0] = decayed[0] - 0.1 * torch::tensor({0.0, 1.0}, torch::kFloat64);
  wanted[2] = decayed[2] - 0.1 * torch::tensor({-1.0, 0.0}, torch::kFloat64);
  EXPECT_LT(largest(table - wanted), 1e-15);
}

}  // namespace
}  // namespace geores
