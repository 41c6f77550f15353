#include "geores/benchmark/step_benchmark.h"

#include <gtest/gtest.h>

namespace geores {
namespace {

// The last state and its gradient, or the gradients on both sides of an operation.
TEST(StepBenchmark, AFusedStepHoldsTwoStatesBesideWhatItsBlocksKeep) {
  constexpr int64_t batch = 32, length = 64;
  for (const auto& [connection, width] :
       {std::pair<std::string, int64_t>{"additive", 32}, {"jpmhc", 128}}) {
    const auto peak = [&](int64_t layers) {
      StepBenchmark benchmark(
          {.connection = connection, .layers = layers, .width = width, .context = length}, batch,
          length);
      const auto bytes = benchmark.memory(Form::fused).peak;
      return static_cast<double>(bytes) / static_cast<double>(batch * length * width * 4);
    };
    const auto block = (peak(5) - peak(3)) / 2;
    EXPECT_LT(peak(3) - 3 * block, 2.6) << connection << ", a block keeps " << block;
  }
}

// The table of `geores bench --explain`.
TEST(StepBenchmark, ExplainsWhichKernelsAStepTakes) {
  const auto runs = [](const Explanation& explanation, const std::string& operation) {
    bool any = false;
    for (const auto& line : explanation.lines())
      any = any || (line.operation == operation && line.missing.empty());
    return any;
  };
  const TransformerConfig config{.connection = "edelta", .layers = 1, .width = 40, .context = 8};
  const auto fused = explain_step(config, 2, 8, "fp32", "cpu");
  for (const auto* operation :
       {"causal_attention", "perceptron", "hybrid_operator", "mix_and_norm"})
    EXPECT_TRUE(runs(fused, operation)) << operation;
  auto odd = config;
  odd.streams = 5;  // no kernel of operators is compiled for 5
  const auto lacking = explain_step(odd, 2, 8, "fp32", "cpu");
  EXPECT_TRUE(runs(lacking, "causal_attention"));
  EXPECT_FALSE(runs(lacking, "hybrid_operator"));
}

}  // namespace
}  // namespace geores
