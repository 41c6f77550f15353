#include "lab/benchmark/step_benchmark.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "geores/model/registry.h"
#include "geores/model/transformer/transformer.h"
#include "geores/testing/testing.h"
#include "lab/benchmark/generation_benchmark.h"
#include "lab/benchmark/seconds_of.h"

namespace geores {
namespace {

using namespace std::chrono_literals;

// The last state and its gradient, or the gradients on both sides of an operation.
TEST(StepBenchmark, AFusedStepHoldsTwoStatesAndTheValuesOfItsBlocks) {
  constexpr int64_t batch = 32, length = 64;
  for (const auto& [connection, width] :
       {std::pair<std::string, int64_t>{"additive", 32}, {"jpmhc", 128}}) {
    const auto peak = [&](int64_t layers) {
      const ModelConfig config{
          .options = {{"connection", connection}, {"layers", layers}, {"width", width}}};
      StepBenchmark benchmark(make_model(config, {.length = length, .width = 16}), batch, length);
      const auto bytes = benchmark.memory(Form::fused).peak;
      return static_cast<double>(bytes) / static_cast<double>(batch * length * width * 4);
    };
    const auto block = (peak(5) - peak(3)) / 2;
    EXPECT_LT(peak(3) - 3 * block, 2.6) << connection << ", a block keeps " << block;
  }
}

double peak_of(const std::string& connection, int64_t layers, Recompute what) {
  torch::manual_seed(1);
  const auto model = std::make_shared<Transformer>(TransformerConfig{.connection = connection,
                                                                     .input = "tokens",
                                                                     .layers = layers,
                                                                     .width = 32,
                                                                     .heads = 2,
                                                                     .context = 32,
                                                                     .vocabulary = 20});
  model->set_recompute(what);
  StepBenchmark step(model, 4, 32);
  step.memory(Form::fused);
  return static_cast<double>(step.memory(Form::fused).peak);
}

// Depth costs the states that enter groups of blocks and what one group computes: both grow with its root.
TEST(StepBenchmark, TwoHundredRecomputedLayersTakeAFractionOfTheMemory) {
  for (const auto* connection : {"additive", "mhc"}) {
    const auto recomputed = peak_of(connection, 200, Recompute::blocks);
    EXPECT_LT(recomputed, 0.1 * peak_of(connection, 200, Recompute::nothing)) << connection;
    EXPECT_LT(recomputed, 2.3 * peak_of(connection, 50, Recompute::blocks)) << connection;
    EXPECT_LT(recomputed, 1e9) << connection;
  }
}

// Sublayers keep their activations; those of four streams and their mixers are recomputed.
TEST(StepBenchmark, RecomputedConnectionsKeepTheirSublayersAlone) {
  const auto of_a_layer = [](const std::string& connection, Recompute what) {
    return (peak_of(connection, 24, what) - peak_of(connection, 8, what)) / 16;
  };
  const auto sublayers = of_a_layer("additive", Recompute::nothing);
  const auto all = of_a_layer("mhc", Recompute::nothing),
             recomputed = of_a_layer("mhc", Recompute::connections);
  EXPECT_LT(recomputed, 1.15 * sublayers);
  EXPECT_LT(recomputed, 0.6 * all);
}

// Every position costs two milliseconds. The model records its calls and their duration.
class SlowModel : public Model {
 public:
  struct Call {
    int64_t positions;
    double seconds;
  };
  std::vector<Call> passes, reads, steps;

  SlowModel() { register_parameter("unused", torch::zeros({1})); }
  InputShape input() const override { return {.length = 12, .vocabulary = 7}; }
  Tensor predict(const Tensor& x, Trace&) override {
    note(passes, x.size(1));
    return torch::zeros({x.size(0), x.size(1), 7});
  }
  Objective objective(const Batch&, Carry&) override {
    return {torch::zeros({}), [] { return torch::ones({}); }};
  }
  std::unique_ptr<Decoder> decoder(int64_t) override {
    return std::make_unique<SlowDecoder>(*this);
  }

 private:
  struct SlowDecoder : Decoder {
    explicit SlowDecoder(SlowModel& of) : model(of) {}
    const Tensor& step(const Tensor&) override {
      note(model.steps, 1);
      return result;
    }
    const Tensor& read(const Tensor& x) override {
      note(model.reads, x.size(1));
      return result;
    }
    SlowModel& model;
    Tensor result = torch::zeros({1, 7});
  };

  static void note(std::vector<Call>& calls, int64_t positions) {
    const auto seconds = seconds_of([&] { std::this_thread::sleep_for(positions * 2ms); });
    calls.push_back({positions, seconds});
  }
};

// Half of the 12 ids are the prompt. The first pass without the cache is not timed.
TEST(GenerationBenchmark, TimesBothWays) {
  SlowModel model;
  const auto speed = generation_speed(model, 3);
  std::vector<int64_t> passes;
  for (const auto& call : model.passes) passes.push_back(call.positions);
  EXPECT_EQ(passes, (std::vector<int64_t>{6, 8, 10, 12}));
  ASSERT_EQ(model.reads.size(), 1u);
  EXPECT_EQ(model.reads[0].positions, 6);
  EXPECT_EQ(model.steps.size(), 5u);

  const auto seconds = [](auto first, auto last) {
    return std::accumulate(first, last, 0.0,
                           [](double sum, const auto& c) { return sum + c.seconds; });
  };
  const auto expect_speed = [](double measured, double ids, double of_the_model, const char* what) {
    EXPECT_LE(measured, ids / of_the_model) << what;
    EXPECT_GE(measured, 0.5 * ids / of_the_model) << what;  // the rest of a step takes time too
  };
  expect_speed(speed.prompt, 6, model.reads[0].seconds, "prompt");
  expect_speed(speed.cached, 5, seconds(model.steps.begin(), model.steps.end()), "with the cache");
  expect_speed(speed.whole, 3, seconds(model.passes.begin() + 1, model.passes.end()), "without");
  EXPECT_EQ(refusal([&] { generation_speed(model, 0); }),
            "[bench] --generate needs a context of at least 4 and a pass, got 12 and 0");
}

// Head and loss in pieces: the logits of a whole batch, by far the largest tensor here, never exist.
TEST(StepBenchmark, ATrainingStepInPiecesNeverHoldsTheLogitsOfItsBatch) {
  constexpr int64_t batch = 16, length = 64, vocabulary = 5000;
  const auto peak = [&](int64_t chunk) {
    StepBenchmark step(std::make_shared<Transformer>(TransformerConfig{.connection = "additive",
                                                                       .input = "tokens",
                                                                       .layers = 1,
                                                                       .width = 16,
                                                                       .heads = 2,
                                                                       .context = length,
                                                                       .vocabulary = vocabulary,
                                                                       .loss_chunk = chunk}),
                       batch, length);
    return step.memory(Form::fused).peak;
  };
  constexpr auto logits = batch * length * vocabulary * int64_t{sizeof(float)};
  EXPECT_GT(peak(0), logits);
  EXPECT_LT(peak(64), logits / 2);
}

TEST(StepBenchmark, AConnectionAloneIsTimed) {
  for (const auto form : {Form::fused, Form::composed}) {
    const auto times = connection_times("mhc", {.width = 16},
                                        {.batch = 1, .length = 8, .form = form, .repeats = 3});
    EXPECT_GT(times.fastest, 0);
    EXPECT_LE(times.fastest, times.median);
  }
}

TEST(StepBenchmark, AThousandLayersAreReadWithoutOverflow) {
  Transformer model(
      {.connection = "additive", .layers = 1000, .width = 8, .heads = 1, .context = 4});
  torch::NoGradGuard no_grad;
  Trace trace;
  EXPECT_TRUE(torch::isfinite(model.forward(torch::randn({1, 4, 16}), trace)).all().item<bool>());
}

// The table of `geores bench --explain`.
TEST(StepBenchmark, ExplainsWhichKernelsAStepTakes) {
  const auto runs = [](const Explanation& explanation, const std::string& operation) {
    bool any = false;
    for (const auto& line : explanation.lines())
      any = any || (line.operation == operation && line.missing.empty());
    return any;
  };
  const auto explained = [](int64_t streams) {
    const ModelConfig config{
        .options = {{"connection", "edelta"}, {"layers", 1}, {"width", 40}, {"streams", streams}}};
    return explain_step([&] { return make_model(config, {.length = 8, .width = 16}); }, 2, 8,
                        "fp32", "cpu");
  };
  const auto fused = explained(4);
  for (const auto* operation :
       {"causal_attention", "perceptron", "hybrid_operator", "mix_and_norm"})
    EXPECT_TRUE(runs(fused, operation)) << operation;
  const auto lacking = explained(5);  // no kernel of operators is compiled for 5
  EXPECT_TRUE(runs(lacking, "causal_attention"));
  EXPECT_FALSE(runs(lacking, "hybrid_operator"));
}

}  // namespace
}  // namespace geores
