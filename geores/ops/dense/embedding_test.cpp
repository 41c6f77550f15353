#include "geores/ops/dense/embedding.h"

#include <gtest/gtest.h>

#include "geores/ops/gradients/step_parameters.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/fused_check_test.h"

namespace geores {
namespace {

void expect_rows_of_the_table(const torch::Device& device, int64_t width) {
  torch::manual_seed(3);
  const auto table = torch::randn({11, width}).to(device).requires_grad_(true),
             rows = torch::randn({9, width}).to(device).requires_grad_(true);
  const auto ids = torch::randint(11, {4, 7}, torch::kInt64).to(device);
  const auto positions = rows.slice(0, 2, 9);
  const auto out = embedded(table, ids, positions);
  const auto wanted = table.index_select(0, ids.flatten()).view({4, 7, width}) + positions;
  EXPECT_TRUE(torch::equal(out, wanted)) << device << width;
  const auto d = torch::randn_like(wanted);
  const auto is = torch::autograd::grad({out}, {table, rows}, {d}),
             right = torch::autograd::grad({wanted}, {table, rows}, {d});
  for (size_t i = 0; i < is.size(); ++i)
    EXPECT_LT((is[i] - right[i]).abs().max().item<double>(), 1e-5) << device << width << i;
}

TEST(Embedding, IsARowOfTheTablePlusOneOfItsPosition) {
  for (const int64_t width : {5, 8}) {
    expect_rows_of_the_table(torch::kCPU, width);
    if (has_gpu()) expect_rows_of_the_table(gpu(), width);
  }
}

TEST(Embedding, OnAGpuGradientsAreAddedToTheirSlots) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  const auto values = torch::randn({11 * 8 + 7 * 8}, gpu());
  const auto table = values.slice(0, 0, 88).view({11, 8}).detach().requires_grad_(true),
             rows = values.slice(0, 88).view({7, 8}).detach().requires_grad_(true);
  const auto gradients = torch::ones_like(values);
  const auto ids = torch::randint(11, {4, 7}, torch::kInt64).to(gpu());
  const auto d = torch::randn({4, 7, 8}, gpu());
  StepParameters step({table, rows}, gradients);
  auto collecting = execution();
  collecting.parameters = &step;
  {
    const ExecutionScope scope(collecting);
    step.begin_pass();
    embedded(table, ids, rows).backward(d);
    step.end_pass();
  }
  EXPECT_FALSE(table.grad().defined() || rows.grad().defined());
  const auto right =
      torch::autograd::grad({torch::embedding(table, ids) + rows}, {table, rows}, {d});
  const auto wanted = 1 + torch::cat({right[0].flatten(), right[1].flatten()});
  EXPECT_LT((gradients - wanted).abs().max().item<double>(), 1e-5);
}

}  // namespace
}  // namespace geores
