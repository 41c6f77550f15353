#include "geores/ops/run/kernel_choice.h"

#include <gtest/gtest.h>

#include "geores/ops/attention/attention.h"
#include "geores/ops/dense/norm.h"

namespace geores {
namespace {

TEST(KernelChoice, NamesTheFirstNeedThatDoesNotHold) {
  const auto x = torch::randn({2, 3});
  Explanation explanation;
  auto explained = execution();
  explained.explanation = &explanation;
  const ExecutionScope scope(explained);
  EXPECT_TRUE(KernelChoice("one", x).need(true, "luck").need_on_gpu(false, "more").runs());
  EXPECT_FALSE(KernelChoice("two", x).need_on_cpu(false, "cache").need(false, "luck").runs());
  EXPECT_FALSE(KernelChoice("two", x).need_on_cpu(false, "cache").runs());
  EXPECT_FALSE(KernelChoice("three", x.to(torch::kBFloat16)).runs());
  EXPECT_FALSE(KernelChoice::half("four", x).runs());
  {
    auto composed = explained;
    composed.form = Form::composed;
    const ExecutionScope inner(composed);
    EXPECT_FALSE(KernelChoice("one", x).runs());
  }
  const auto& lines = explanation.lines();
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0].missing, "");
  EXPECT_EQ(lines[1].missing, "cache");
  EXPECT_EQ(lines[1].times, 2);
  EXPECT_EQ(lines[2].missing, "float32 or float64 values");
  EXPECT_EQ(lines[3].missing, "a GPU");
  EXPECT_EQ(lines[4].missing, "the fused form");
}

TEST(KernelChoice, OperationsWriteTheirsDownOnlyWhereAsked) {
  const auto x = torch::randn({2, 5, 12}), weight = torch::ones({12});
  Explanation explanation;
  {
    auto explained = execution();
    explained.explanation = &explanation;
    const ExecutionScope scope(explained);
    layer_norm(x, weight);
    causal_attention(x, 2);
  }
  layer_norm(x, weight);
  ASSERT_EQ(explanation.lines().size(), 2u);
  EXPECT_EQ(explanation.lines()[0].operation, "norm");
  EXPECT_EQ(explanation.lines()[0].times, 1);
  EXPECT_EQ(explanation.lines()[1].operation, "causal_attention");
  EXPECT_EQ(explanation.lines()[1].missing, "");
}

}  // namespace
}  // namespace geores
