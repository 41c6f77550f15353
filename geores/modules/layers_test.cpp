#include "geores/modules/layers.h"

#include <gtest/gtest.h>

#include "geores/ops/run/execution.h"

namespace geores {
namespace {

TEST(Layers, ProjectionsAndPerceptronsTogetherEqualEachAlone) {
  ScaledProjection one(8, torch::randn({3}), torch::randn({1}), 0.5),
      two(8, torch::randn({4, 2}), torch::randn({4, 1}), 0.5), three(8, torch::randn({2}), {}, 0.5);
  Perceptron first(8, 5, 3), second(8, 6, 1);
  const auto x = torch::randn({2, 7, 8});
  const auto both = [&](Form form) {
    const ExecutionScope scope(form);
    auto all = ScaledProjection::forward_all({&one, &two, &three}, x, {.layer = false}).outputs;
    for (const auto& output : Perceptron::forward_all({&first, &second}, x)) all.push_back(output);
    return all;
  };
  const auto fused = both(Form::fused), composed = both(Form::composed);
  ASSERT_EQ(fused.size(), 5u);
  for (size_t i = 0; i < fused.size(); ++i) {
    ASSERT_EQ(fused[i].sizes(), composed[i].sizes());
    EXPECT_LT((fused[i] - composed[i]).abs().max().item<double>(), 1e-5) << i;
  }
}

}  // namespace
}  // namespace geores
