#include "geores/modules/layers.h"

#include <gtest/gtest.h>

#include "geores/ops/run/execution.h"

namespace geores {
namespace {

TEST(Layers, PerceptronsTogetherEqualEachAlone) {
  Perceptron first(8, 5, 3), second(8, 6, 1);
  const auto x = torch::randn({2, 7, 8});
  const auto both = [&](Form form) {
    const ExecutionScope scope(form);
    return Perceptron::forward_all({&first, &second}, x);
  };
  const auto fused = both(Form::fused), composed = both(Form::composed);
  ASSERT_EQ(fused.size(), 2u);
  for (size_t i = 0; i < fused.size(); ++i) {
    ASSERT_EQ(fused[i].sizes(), composed[i].sizes());
    EXPECT_LT((fused[i] - composed[i]).abs().max().item<double>(), 1e-5) << i;
  }
}

}  // namespace
}  // namespace geores
