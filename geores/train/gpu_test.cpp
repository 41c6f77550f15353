// Training on a GPU; skipped where there is none. Operations are compared in ops/fused_test.cpp,
// connections in residual/gpu_test.cpp.
#include <gtest/gtest.h>

#include <cmath>

#include "geores/ops/implementation.h"
#include "geores/ops/precision.h"
#include "geores/ops/seeding.h"
#include "geores/train/device_loop.h"
#include "geores/train/schedule.h"

namespace geores {
namespace {

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU";
    torch::manual_seed(5);
  }
  const torch::Device device_{torch::kCUDA};
};

TransformerConfig small_model(const std::string& connection) {
  return {.connection = connection,
          .layers = 2,
          .width = connection == "jpmhc" ? 256 : 64,
          .heads = 2,
          .context = 32,
          .input_width = 6};
}

std::vector<double> losses_of(const TransformerConfig& config, const torch::Device& device,
                              const std::string& precision, int steps, bool composed = false) {
  const ImplementationScope form(composed ? Implementation::composed : Implementation::fused);
  const auto model = with_seed(9, [&] { return std::make_shared<Transformer>(config); });
  model->to(device);
  TrainingStep step(*model, {});
  torch::manual_seed(4);
  const auto x = torch::randn({steps, 8, 31, 6}).to(device), y = torch::tanh(x.roll(1, -1));
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    const PrecisionScope scope(precision);
    losses.push_back(step.run(x[i], y[i], 1e-3).loss.item<double>());
  }
  return losses;
}

TEST_F(Gpu, TrainsAsTheCpuDoesFor20Steps) {
  for (const auto* connection : {"additive", "mhc_split", "jpmhc", "ddl_pooled"}) {
    const auto gpu = losses_of(small_model(connection), device_, "fp32", 20);
    const auto cpu = losses_of(small_model(connection), torch::kCPU, "fp32", 20);
    for (size_t i = 0; i < gpu.size(); ++i)
      EXPECT_NEAR(gpu[i] / cpu[i], 1.0, 1e-4) << connection << " step " << i;
  }
}

TEST_F(Gpu, ProductsInBfloat16ChangeALossLittle) {
  for (const auto* connection : {"additive", "mhc_split", "jpmhc", "ddl_pooled", "edelta"}) {
    const auto half = losses_of(small_model(connection), device_, "bf16", 20);
    const auto full = losses_of(small_model(connection), device_, "fp32", 20);
    for (size_t i = 0; i < half.size(); ++i)
      EXPECT_NEAR(half[i] / full[i], 1.0, 0.03) << connection << " step " << i;
  }
}

// A step's kernels add to the gradients by themselves and leave some of it to another stream
// (ops/sum_room.h): all of it must be what autograd alone gives.
TEST_F(Gpu, AStepCollectsTheGradientsThatAutogradGives) {
  const auto gradients_of = [&](const TransformerConfig& config, const Tensor& x, const Tensor& y,
                                int64_t parts) {  // 0: without a step
    const auto model = with_seed(9, [&] { return std::make_shared<Transformer>(config); });
    model->to(device_);
    const PrecisionScope scope("bf16");
    if (parts > 0) {
      AdamWOptions unclipped;
      unclipped.clip = 0;
      TrainingStep(*model, unclipped).run(x, y, 0.0, parts);
    } else {
      Trace trace;
      const auto loss = task_loss(model->forward(x, trace), y);
      (trace.loss().defined() ? loss + trace.loss() : loss).backward();
    }
    std::vector<std::pair<std::string, Tensor>> gradients;
    for (const auto& item : model->named_parameters())
      gradients.emplace_back(item.key(), item.value().grad().defined()
                                             ? item.value().grad().detach().clone()
                                             : torch::zeros_like(item.value()).detach());
    return gradients;
  };
  for (const auto* connection :
       {"additive", "ddl_pooled", "edelta", "mhc_split", "jpmhc", "mhc", "mhc_lite"})
    for (const int64_t inputs : {6, 300}) {  // a bias of few and of many values
      TransformerConfig config{.connection = connection,
                               .layers = 2,
                               .width = std::string(connection) == "jpmhc" ? 512 : 128,
                               .heads = 4,
                               .context = 32,
                               .input_width = inputs};
      const auto x = torch::randn({4, 31, inputs}, torch::kCUDA), y = torch::tanh(x.roll(1, -1));
      const auto wanted = gradients_of(config, x, y, 0);
      for (const int64_t parts : {1, 2}) {
        const auto collected = gradients_of(config, x, y, parts);
        ASSERT_EQ(collected.size(), wanted.size());
        for (size_t i = 0; i < wanted.size(); ++i) {
          const auto& [name, gradient] = wanted[i];
          const auto scale = gradient.norm().item<double>();
          if (scale < 1e-6) continue;  // all rounding
          EXPECT_LT((collected[i].second - gradient).norm().item<double>(), 5e-3 * scale)
              << connection << " " << name << ", " << inputs << " inputs, " << parts << " parts";
        }
      }
    }
}

TEST_F(Gpu, ARecordedStepIsTheStep) {
  for (const auto* precision : {"fp32", "bf16"})
    for (const auto* connection : {"additive", "edelta", "jpmhc"}) {
      const DeviceStream stream(device_);
      const auto config = small_model(connection);
      TrainConfig training;
      training.steps = 12;
      training.batch = 8;
      training.warmup = 3;
      training.precision = precision;
      torch::manual_seed(2);
      const auto x = torch::randn({40, 31, 6}).to(device_), y = torch::tanh(x.roll(1, -1));
      const DeviceData data{x, y, x, y};
      std::vector<std::vector<int64_t>> batches;
      for (int64_t step = 0; step < training.steps; ++step) {
        batches.emplace_back();
        for (int64_t i = 0; i < training.batch; ++i) batches.back().push_back((7 * step + i) % 40);
      }
      const auto make = [&] {
        auto model = with_seed(9, [&] { return std::make_shared<Transformer>(config); });
        model->to(device_);
        return model;
      };
      const auto recorded = make(), plain = make();
      TrainingStep recorded_step(*recorded, {}), plain_step(*plain, {});
      DeviceLoop loop(*recorded, recorded_step, training, data, batches, 0);
      const Schedule schedule{.peak = training.lr,
                              .floor = training.min_lr,
                              .warmup = training.warmup,
                              .total = training.steps};
      for (int64_t step = 0; step < training.steps; ++step) {
        loop.step();
        const auto rows =
            torch::tensor(batches[static_cast<size_t>(step)], torch::kInt64).to(device_);
        const PrecisionScope scope(precision);
        const auto wanted =
            plain_step.run(x.index_select(0, rows), y.index_select(0, rows), schedule.at(step));
        EXPECT_NEAR(loop.numbers(step).loss / wanted.loss.item<double>(), 1.0,
                    std::string(precision) == "bf16" ? 0.02 : 1e-4)
            << connection << " " << precision << " step " << step;
      }
    }
}

}  // namespace
}  // namespace geores
