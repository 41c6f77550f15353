#include "geores/benchmark/step_benchmark.h"

#include <gtest/gtest.h>

#include "geores/model/registry.h"

namespace geores {
namespace {

// The last state and its gradient, or the gradients on both sides of an operation.
TEST(StepBenchmark, AFusedStepHoldsTwoStatesBesideWhatItsBlocksKeep) {
  constexpr int64_t batch = 32, length = 64;
  for (const auto& [connection, width] :
       {std::pair<std::string, int64_t>{"additive", 32}, {"jpmhc", 128}}) {
    const auto peak = [&](int64_t layers) {
      const ModelConfig config{
          .options = {{"connection", connection}, {"layers", layers}, {"width", width}}};
      StepBenchmark benchmark(make_model(config, {.length = length, .width = 16}), batch, length);
      const auto bytes = benchmark.memory(Implementation::fused).peak;
      return static_cast<double>(bytes) / static_cast<double>(batch * length * width * 4);
    };
    const auto block = (peak(5) - peak(3)) / 2;
    EXPECT_LT(peak(3) - 3 * block, 2.6) << connection << ", a block keeps " << block;
  }
}

}  // namespace
}  // namespace geores
