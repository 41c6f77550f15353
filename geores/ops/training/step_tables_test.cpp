#include "geores/ops/training/step_tables.h"

#include <gtest/gtest.h>

#include "geores/ops/run/fused_check_test.h"
#include "geores/ops/run/on_gpu.h"
#include "geores/ops/run/precision.h"

namespace geores {
namespace {

TEST(StepTables, StepsLookUpTheirBatchAndRatesAndLeaveTheirNumbers) {
  for (const auto& device : devices())
    for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kInt64})
      for (const auto* precision : {"fp32", "bf16"})
        for (const int64_t length : {1, 7, 1501}) {  // of one block and of several, none aligned
          const ExecutionScope scope(precision_from(precision));
          const auto real = torch::TensorOptions(type == torch::kInt64 ? torch::kFloat32 : type);
          const auto x = (100 * torch::randn({9, length, 3})).to(device, type),
                     y = (100 * torch::randn({9, length, 5})).to(device, type);
          const int64_t window = 2;
          const StepTables tables{
              .step = torch::full({1}, 1, torch::kInt64).to(device),
              .batches = torch::randint(9, {window, 6}, torch::kInt64).to(device),
              .rates = torch::randn({4, 3}, real).to(device),
              .losses = torch::zeros({4}, real).to(device),
              .norms = torch::zeros({4}, real).to(device)};
          for (int64_t step = 1; step < 3; ++step) {
            const auto [taken_x, taken_y, rates] = step_input(tables, x, y);
            const auto rows = tables.batches[step % window];
            const auto what = std::to_string(length) + " " + precision;
            const bool half = on_gpu(device) && type == torch::kFloat32 && products_in_bfloat16();
            EXPECT_TRUE(
                torch::equal(taken_x, x.index_select(0, rows).to(half ? torch::kBFloat16 : type)))
                << what << " " << type;
            EXPECT_TRUE(torch::equal(taken_y, y.index_select(0, rows))) << what << " " << type;
            EXPECT_TRUE(torch::equal(rates, tables.rates[step])) << what;
            end_step(tables, rates[0] + 1, rates[1]);
            EXPECT_TRUE(torch::equal(tables.losses[step], rates[0] + 1)) << what;
            EXPECT_TRUE(torch::equal(tables.norms[step], rates[1])) << what;
            EXPECT_EQ(tables.step.item<int64_t>(), step + 1) << what;
          }
          EXPECT_EQ(tables.losses[0].item<double>(), 0) << "not a step that was taken";
        }
}

}  // namespace
}  // namespace geores
