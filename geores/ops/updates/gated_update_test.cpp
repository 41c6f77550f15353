// MGT's update against its composed definition: values and all gradients. On a machine without a GPU
// both sides are composed.
#include "geores/ops/updates/gated_update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/run/kernel_choice.h"

namespace geores {
namespace {

// Inputs: x, v, W_gate, the norm's weight, W_β, b_β, α.
Tensors updated(const Tensors& t, bool gated, bool scaled) {
  GatedUpdateSpec spec{.scale = 0.7, .offset = 0.2};
  if (gated) spec.gate_weight = t[2], spec.norm_weight = t[3];
  if (scaled) spec.beta_weight = t[4], spec.beta_bias = t[5], spec.alpha = t[6];
  Tensors all = {gated_update(t[0], t[1], spec)};
  for (const auto& input : t)
    all.push_back(input * 1);  // includes the inputs that the update ignores
  return all;
}

TEST(GatedUpdate, EqualsComposed) {
  torch::manual_seed(2);
  for (const int64_t width : {1, 7, 36, 130, 513, 768, 2048}) {
    if (!takes_large_sizes() && width > 36) continue;
    const auto part = 1 / std::sqrt(static_cast<double>(width));
    const Tensors inputs = {random({2, 9, width}),
                            random({2, 9, width}),
                            part * random({width, width}),
                            random({width}),
                            part * random({width, width}),
                            random({width}),
                            random({1})};
    for (const bool gated : {true, false})
      for (const bool scaled : {true, false})
        if (width > 1 || !gated)  // a norm over one value is only rounding
          expect_fused_equals_composed(
              inputs, [=](const Tensors& t) { return updated(t, gated, scaled); },
              "width " + std::to_string(width), 2e-4);
  }
}

TEST(GatedUpdate, IsItsFormula) {
  const auto x = torch::tensor({{{2.0, -1.0}}}, torch::kFloat64), v = 3 * x;
  const auto one = torch::eye(2, torch::kFloat64);
  GatedUpdateSpec spec{.scale = 0.5, .offset = 0.25};
  spec.beta_weight = one;
  spec.beta_bias = torch::tensor({0.1, 0.3}, torch::kFloat64);
  spec.alpha = torch::tensor({0.4}, torch::kFloat64);
  const auto beta = 0.5 * std::tanh(2.1) + 0.25;
  EXPECT_NEAR(gated_update(x, v, spec)[0][0][0].item<double>(), 2 + beta * (6 - 0.8), 1e-14);
  spec.gate_weight = one;
  spec.norm_weight = torch::ones({2}, torch::kFloat64);
  const auto open = 1 / (1 + std::exp(-1.5 / std::sqrt(2.25 + 1e-5)));
  EXPECT_NEAR(gated_update(x, v, spec)[0][0][0].item<double>(), 2 + beta * (6 * open - 0.8), 1e-14);
}

TEST(GatedUpdate, RunsFusedAtTheBaseModelsSizeOnAGpu) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  const auto like = torch::TensorOptions().device(gpu());
  Explanation explanation;
  auto explained = execution();
  explained.explanation = &explanation;
  const ExecutionScope scope(explained);
  const auto x = torch::randn({2, 8, 768}, like), w = torch::randn({768, 768}, like);
  GatedUpdateSpec spec;
  spec.gate_weight = w, spec.norm_weight = w[0];
  gated_update(x, x, spec);
  ASSERT_FALSE(explanation.lines().empty());
  EXPECT_EQ(explanation.lines()[0].operation, "gated_update");
  EXPECT_EQ(explanation.lines()[0].missing, "");
}

}  // namespace
}  // namespace geores
