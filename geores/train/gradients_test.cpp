// A training step's gradients behave as in plain LibTorch, on a CPU and, where there is one, on a GPU
// with kernels that add gradients themselves: frozen parameters, weights that are used several times,
// tied weights, hooks.
#include <gtest/gtest.h>

#include "geores/base/error.h"
#include "geores/model/transformer/transformer.h"
#include "geores/modules/seeding.h"
#include "geores/ops/run/precision.h"
#include "geores/train/device/device_loop.h"
#include "geores/train/training_step.h"

namespace geores {
namespace {

std::vector<torch::Device> devices() {
  std::vector<torch::Device> all = {torch::kCPU};
  if (torch::cuda::is_available()) all.push_back(torch::kCUDA);
  return all;
}

TransformerConfig small_model(const std::string& connection) {
  return {.connection = connection,
          .layers = 2,
          .width = connection == "jpmhc" ? 256 : 64,
          .heads = 2,
          .context = 32,
          .input_width = 6};
}

std::shared_ptr<Transformer> make(const TransformerConfig& config, const torch::Device& device) {
  auto model = with_seed(9, [&] { return std::make_shared<Transformer>(config); });
  model->to(device);
  return model;
}

struct Sequences {
  Tensor x, y;
  explicit Sequences(const torch::Device& device) {
    torch::manual_seed(4);
    x = torch::randn({8, 31, 6}).to(device);
    y = torch::tanh(x.roll(1, -1));
  }
};

// Weights, norms, generators and folded maps of the first block.
bool is_frozen(const std::string& name) {
  return name.find("blocks.0.") == 0 || name == "final_norm.weight" || name == "input.bias";
}

std::map<std::string, Tensor> freeze(Transformer& model) {
  std::map<std::string, Tensor> before;
  for (auto& item : model.named_parameters())
    if (is_frozen(item.key())) {
      item.value().requires_grad_(false);
      before[item.key()] = item.value().detach().clone();
    }
  return before;
}

void expect_only_frozen_unchanged(Transformer& model, const std::map<std::string, Tensor>& before,
                                  const Tensor& start, FlatParameters& parameters,
                                  const std::string& what) {
  ASSERT_GT(before.size(), 4u);
  for (const auto& item : model.named_parameters()) {
    const auto found = before.find(item.key());
    if (found == before.end()) continue;
    EXPECT_TRUE(torch::equal(item.value(), found->second)) << what << " " << item.key();
  }
  EXPECT_FALSE(torch::equal(parameters.values(), start)) << what << ": nothing was trained";
}

TEST(StepGradients, FrozenParametersStayBitForBit) {
  for (const auto& device : devices())
    for (const auto precision : {Precision::fp32, Precision::bf16})
      for (const auto* connection : {"additive", "edelta", "jpmhc", "mhc_split", "ddl_pooled"}) {
        const auto model = make(small_model(connection), device);
        const auto before = freeze(*model);
        TrainingStep step(*model, {});
        const auto start = step.parameters().values().clone();
        const Sequences data(device);
        const ExecutionScope scope(precision);
        for (int i = 0; i < 20; ++i) step.run(data.x, data.y, 1e-3);
        expect_only_frozen_unchanged(*model, before, start, step.parameters(),
                                     connection + std::string(" on ") + device.str());
      }
}

TrainConfig loop_config(const std::string& precision) {
  TrainConfig config;
  config.steps = 20;
  config.batch = 4;
  config.eval_batches = config.final_eval_batches = 1;
  config.precision = precision;
  return config;
}

LoopBatch loop_batch(int64_t) { return {.rows = {0, 3, 5, 1}, .terms = {}}; }

TEST(StepGradients, FrozenParametersStayBitForBitInRecordedSteps) {
  for (const auto& device : devices())
    for (const auto* connection : {"additive", "edelta", "jpmhc"}) {
      const OwnCudaStream stream(device);
      const auto model = make(small_model(connection), device);
      const auto before = freeze(*model);
      TrainingStep step(*model, {});
      const auto start = step.parameters().values().clone();
      const Sequences sequences(device);
      const DeviceData data{sequences.x, sequences.y, sequences.x, sequences.y};
      const auto config = loop_config("bf16");
      DeviceLoop loop(*model, step, config, data, loop_batch, 0);
      for (int i = 0; i < 20; ++i) loop.step();
      expect_only_frozen_unchanged(*model, before, start, step.parameters(), connection);
    }
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(StepGradients, FreezingOrUnfreezingLaterIsRefused) {
  const auto model = make(small_model("additive"), torch::kCPU);
  model->final_norm().weight().requires_grad_(false);
  TrainingStep step(*model, {});
  const Sequences data(torch::kCPU);
  step.run(data.x, data.y, 1e-3);
  auto up = model->named_parameters()["blocks.0.mlp.up.weight"];
  up.requires_grad_(false);
  EXPECT_EQ(error_of([&] { step.run(data.x, data.y, 1e-3); }),
            "[train] parameter 'blocks.0.mlp.up.weight' was frozen after the optimiser was made; "
            "freeze it before");
  up.requires_grad_(true);
  step.run(data.x, data.y, 1e-3);
  model->final_norm().weight().requires_grad_(true);
  EXPECT_EQ(error_of([&] { step.run(data.x, data.y, 1e-3); }),
            "[train] parameter 'final_norm.weight' was frozen when the optimiser was made; make a "
            "new one to train it");
}

// One block that a token passes three times.
class Thrice : public torch::nn::Module {
 public:
  explicit Thrice(const std::string& connection) {
    block_ = register_module(
        "block", std::make_shared<Block>(connection,
                                         ResidualConfig{.width = connection == "jpmhc" ? 256 : 64},
                                         SublayerOptions{}, 2, 3));
  }
  Tensor loss(const Tensor& x) {
    Trace trace;
    State state = x;
    for (int pass = 0; pass < 3; ++pass) state = block_->advance(state, trace);
    const auto loss = state.total().square().mean();
    return trace.loss().defined() ? loss + trace.loss() : loss;
  }

 private:
  std::shared_ptr<Block> block_;
};

std::vector<Tensor> gradients_of(const torch::nn::Module& module) {
  std::vector<Tensor> all;
  for (const auto& parameter : module.parameters()) all.push_back(parameter.grad().clone());
  return all;
}

TEST(StepGradients, ABlockThatIsUsedThreeTimesHasTheGradientsOfTheComposedForm) {
  for (const auto& device : devices())
    for (const auto* connection : {"additive", "edelta", "jpmhc", "mhc_split", "ddl_pooled"})
      for (const auto precision : {Precision::fp32, Precision::bf16}) {
        if (device.is_cpu() && precision == Precision::bf16) continue;
        const auto model = with_seed(9, [&] { return std::make_shared<Thrice>(connection); });
        model->to(device);
        torch::manual_seed(4);
        const auto x =
            torch::randn({4, 15, std::string(connection) == "jpmhc" ? 256 : 64}).to(device);
        const ExecutionScope products(precision);
        {
          // In bfloat16 the two forms round at different points; there only autograd is the
          // reference.
          const ExecutionScope scope(precision == Precision::fp32 ? Form::composed : Form::fused);
          model->loss(x).backward();
        }
        const auto composed = gradients_of(*model);
        double largest = 0;
        for (const auto& gradient : composed)
          largest = std::max(largest, gradient.norm().item<double>());
        FlatParameters parameters(*model);
        parameters.collect_gradients(1, [&](int64_t) { model->loss(x).backward(); });
        const auto collected = gradients_of(*model);
        ASSERT_EQ(collected.size(), composed.size());
        const double tolerance = precision == Precision::fp32 ? 2e-4 : 1e-2;
        for (size_t i = 0; i < collected.size(); ++i) {
          const auto scale = std::max(composed[i].norm().item<double>(), 1e-2 * largest);
          EXPECT_LT((collected[i] - composed[i]).norm().item<double>(), tolerance * scale)
              << connection << " on " << device << " parameter " << i << " bf16 "
              << (precision == Precision::bf16);
        }
      }
}

TEST(StepGradients, ATiedEmbeddingGetsBothOfItsGradients) {
  for (const auto& device : devices())
    for (const auto precision : {Precision::fp32, Precision::bf16}) {
      if (device.is_cpu() && precision == Precision::bf16) continue;
      const auto model = make({.connection = "additive",
                               .input = "tokens",
                               .layers = 1,
                               .width = 64,
                               .heads = 2,
                               .context = 32,
                               .vocabulary = 24},
                              device);
      const auto ids = torch::randint(24, {4, 31}, torch::kInt64).to(device);
      const ExecutionScope products(precision);
      {
        const ExecutionScope scope(Form::composed);
        Trace trace;
        task_loss(model->forward(ids, trace), ids.roll(1, -1)).backward();
      }
      const Tensor embedding = model->named_parameters()["embedding"];
      const auto composed = embedding.grad().clone();
      OptimizerOptions unclipped;
      unclipped.clip = 0;
      TrainingStep(*model, unclipped).run(ids, ids.roll(1, -1), 0.0);
      const double tolerance = precision == Precision::fp32 ? 1e-4 : 2e-2;
      EXPECT_LT((embedding.grad() - composed).norm().item<double>(),
                tolerance * composed.norm().item<double>())
          << device;
    }
}

TEST(StepGradients, AHookSeesTheGradientOnceAStepAndMayChangeIt) {
  for (const auto& device : devices())
    for (const auto* connection : {"additive", "edelta", "jpmhc"})
      for (const auto* name :
           {"blocks.0.mlp.up.weight", "final_norm.weight", "positions", "output.bias"}) {
        OptimizerOptions unclipped;
        unclipped.clip = 0;
        const Sequences data(device);
        const ExecutionScope scope(Precision::bf16);
        const auto plain = make(small_model(connection), device);
        TrainingStep(*plain, unclipped).run(data.x, data.y, 0.0);

        const auto hooked = make(small_model(connection), device);
        auto parameter = hooked->named_parameters()[name];
        int calls = 0;
        Tensor seen;
        parameter.register_hook([&](const Tensor& gradient) {
          ++calls;
          seen = gradient.clone();
          return gradient * 2;
        });
        TrainingStep step(*hooked, unclipped);
        step.run(data.x, data.y, 0.0);
        const auto what = std::string(connection) + " " + name + " on " + device.str();
        ASSERT_EQ(calls, 1) << what;
        const auto wanted = plain->named_parameters()[name].grad();
        const auto scale = wanted.norm().item<double>();
        EXPECT_LT((seen - wanted).norm().item<double>(), 2e-2 * scale) << what;
        EXPECT_LT((parameter.grad() - 2 * seen).norm().item<double>(), 1e-5 * scale) << what;
        step.run(data.x, data.y, 0.0);
        EXPECT_EQ(calls, 2) << what;
      }
}

TEST(StepGradients, ARecordedStepRefusesAHook) {
  for (const auto& device : devices()) {
    const OwnCudaStream stream(device);
    const auto model = make(small_model("additive"), device);
    TrainingStep step(*model, {});
    const Sequences sequences(device);
    const DeviceData data{sequences.x, sequences.y, sequences.x, sequences.y};
    const auto config = loop_config("bf16");
    DeviceLoop loop(*model, step, config, data, loop_batch, 0);
    for (int i = 0; i < 6; ++i) loop.step();
    model->final_norm().weight().register_hook([](const Tensor& gradient) { return gradient; });
    EXPECT_EQ(
        error_of([&] { loop.step(); }),
        "[train] parameter 'final_norm.weight' has a hook, which a recorded step cannot call; "
        "train without recording");
  }
}

}  // namespace
}  // namespace geores
