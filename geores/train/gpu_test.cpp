// Training on a GPU; skipped where there is none. Operations are compared in ops/fused_test.cpp,
// connections in residual/gpu_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <thread>

#include "geores/model/recursive/recursive.h"
#include "geores/model/transformer/transformer.h"
#include "geores/modules/layers.h"
#include "geores/modules/seeding.h"
#include "geores/ops/run/dispatch.h"
#include "geores/ops/run/execution.h"
#include "geores/ops/run/precision.h"
#include "geores/train/device/device_loop.h"
#include "geores/train/device/recorded_work.h"
#include "geores/train/optimizer/adamw.h"
#include "geores/train/optimizer/schedule.h"

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

TransformerConfig gpu_model(const std::string& connection) {
  return {.connection = connection,
          .layers = 2,
          .width = connection == "jpmhc" ? 256 : 64,
          .heads = 2,
          .context = 32,
          .input_width = 6};
}

std::vector<double> losses_of(const TransformerConfig& config, const torch::Device& device,
                              const std::string& precision, int steps, bool composed = false) {
  const ExecutionScope form(composed ? Form::composed : Form::fused);
  const auto model = with_seed(9, [&] { return std::make_shared<Transformer>(config); });
  model->to(device);
  TrainingStep step(*model, {});
  torch::manual_seed(4);
  const auto x = torch::randn({steps, 8, 31, 6}).to(device), y = torch::tanh(x.roll(1, -1));
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    const ExecutionScope scope(precision_from(precision));
    losses.push_back(step.run(x[i], y[i], 1e-3).loss.item<double>());
  }
  return losses;
}

TEST_F(Gpu, TrainsAsTheCpuDoesFor20Steps) {
  for (const auto* connection : {"additive", "mhc_split", "jpmhc", "ddl_pooled"}) {
    const auto gpu = losses_of(gpu_model(connection), device_, "fp32", 20);
    const auto cpu = losses_of(gpu_model(connection), torch::kCPU, "fp32", 20);
    for (size_t i = 0; i < gpu.size(); ++i)
      EXPECT_NEAR(gpu[i] / cpu[i], 1.0, 1e-4) << connection << " step " << i;
  }
}

void expect_close_losses(const TransformerConfig& config, const torch::Device& device,
                         const std::string& precision) {
  const auto half = losses_of(config, device, precision, 20),
             full = losses_of(config, device, "fp32", 20);
  for (size_t i = 0; i < half.size(); ++i)
    EXPECT_NEAR(half[i] / full[i], 1.0, 0.03)
        << config.connection << " " << precision << " step " << i;
}

TEST_F(Gpu, ProductsInBfloat16ChangeALossLittle) {
  for (const auto* connection : {"additive", "mhc_split", "jpmhc", "ddl_pooled", "edelta"})
    expect_close_losses(gpu_model(connection), device_, "bf16");
}

// Connections that support such a state, and one that does not.
TEST_F(Gpu, AStateInBfloat16ChangesALossLittle) {
  for (const auto* connection : {"hc", "mhc", "mhc_lite", "shc", "jpmhc", "additive"})
    expect_close_losses(gpu_model(connection), device_, "bf16_state");
  auto learned = gpu_model("mhc");
  learned.options = {{"head", "learned"}};
  expect_close_losses(learned, device_, "bf16_state");
}

// A step's kernels accumulate into the gradients themselves and leave part of the work to another
// stream (ops/gradients/step_parameters.h). The result must equal autograd's.
TEST_F(Gpu, AStepCollectsTheGradientsThatAutogradGives) {
  const auto gradients_of = [&](const TransformerConfig& config, const Tensor& x, const Tensor& y,
                                int64_t parts) {  // 0: without a step
    const auto model = with_seed(9, [&] { return std::make_shared<Transformer>(config); });
    model->to(device_);
    const ExecutionScope scope(Precision::bf16);
    if (parts > 0) {
      OptimizerOptions unclipped;
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
  const nlohmann::json defaults = nlohmann::json::object(), by_token = {{"pool", "causal"}};
  const std::vector<std::pair<std::string, nlohmann::json>> connections = {
      {"additive", defaults}, {"ddl_pooled", defaults}, {"ddl_pooled", by_token},
      {"edelta", defaults},   {"edelta", by_token},     {"mhc_split", defaults},
      {"jpmhc", defaults},    {"mhc", defaults},        {"mhc_lite", defaults},
      {"hc", defaults},       {"shc", defaults}};
  for (const auto& [connection, options] : connections)
    for (const auto& [inputs, wide] :  // a bias of few and of many values; weights for the BLAS
         std::vector<std::pair<int64_t, bool>>{{6, false}, {16, false}, {300, false}, {16, true}}) {
      if (wide && connection != "additive" && connection != "edelta") continue;
      TransformerConfig config{.connection = connection,
                               .layers = 2,
                               .width = wide                    ? 544
                                        : connection == "jpmhc" ? 512
                                                                : 128,
                               .heads = 4,
                               .context = 32,
                               .input_width = inputs,
                               .options = options};
      const auto x = torch::randn({4, 31, inputs}, torch::kCUDA), y = torch::tanh(x.roll(1, -1));
      const auto wanted = gradients_of(config, x, y, 0);
      double largest = 0;
      for (const auto& [name, gradient] : wanted)
        largest = std::max(largest, gradient.norm().item<double>());
      for (const int64_t parts : {1, 2}) {
        const auto collected = gradients_of(config, x, y, parts);
        ASSERT_EQ(collected.size(), wanted.size());
        for (size_t i = 0; i < wanted.size(); ++i) {
          const auto& [name, gradient] = wanted[i];
          const auto scale = gradient.norm().item<double>();
          if (scale < 1e-6) continue;  // only rounding is left
          // A product may take another path in a step (by the alignment of its weights) and round
          // differently. Small gradients, of β above all, are differences of rounded values.
          const auto tolerance = scale < 1e-2 * largest ? 0.2 : 5e-3;
          EXPECT_LT((collected[i].second - gradient).norm().item<double>(), tolerance * scale)
              << config.connection << " " << config.options.dump() << " " << name << ", " << inputs
              << " inputs, " << parts << " parts";
        }
      }
    }
}

// Also with parameters whose size is not a multiple of the vector width.
TEST_F(Gpu, AdamWEqualsItsDefinitionAndLeavesParametersReady) {
  for (const int64_t hidden : {1, 4, 5, 600})
    for (const bool ready : {false, true}) {
      const ExecutionScope scope(Precision::bf16);
      Perceptron model(3, hidden, 2), other(3, hidden, 2);
      model.to(device_);
      other.to(device_);
      FlatParameters flat(model), wanted(other);
      wanted.values().copy_(flat.values());
      AdamW adamw(flat, {}), definition(wanted, {});
      if (ready) flat.keep_ready();
      const auto full = [&](double value) { return torch::full({1}, value, device_); };
      for (int step = 0; step < 3; ++step) {
        const AdamW::Rates rates{
            .learning_rate = full(1e-2), .bias1 = full(0.1 + step), .bias2 = full(0.05 + step)};
        const auto gradients = torch::randn({flat.size()}, device_);
        flat.gradients().copy_(gradients);
        wanted.gradients().copy_(gradients);
        const auto norm = adamw.step(rates);
        const ExecutionScope form(Form::composed);
        EXPECT_NEAR(definition.step(rates).item<float>() / norm.item<float>(), 1, 1e-5);
        const auto difference = [](const Tensor& a, const Tensor& b) {
          return (a - b).abs().max().item<float>();
        };
        EXPECT_LT(difference(flat.values(), wanted.values()), 1e-5) << hidden;
        EXPECT_LT(difference(adamw.first_moment(), definition.first_moment()), 1e-5) << hidden;
        EXPECT_LT(
            difference(flat.gradients(), ready ? torch::zeros_like(gradients) : wanted.gradients()),
            1e-5)
            << hidden;
        EXPECT_EQ(flat.product_values().defined(), ready);
        if (ready) {
          EXPECT_TRUE(torch::equal(flat.product_values(), flat.values().to(torch::kBFloat16)))
              << hidden;
        }
      }
    }
}

TEST_F(Gpu, ARecordedStepIsTheStep) {
  for (const auto& [precision, accumulate] : std::vector<std::pair<std::string, int64_t>>{
           {"fp32", 1}, {"bf16", 1}, {"bf16", 2}, {"bf16_state", 2}})
    for (const auto* connection : {"additive", "edelta", "jpmhc", "tokens", "dropout"}) {
      const OwnCudaStream cuda_stream(device_);
      const bool tokens = std::string(connection) == "tokens",
                 drops = std::string(connection) == "dropout";
      auto config = gpu_model(tokens || drops ? "additive" : connection);
      if (drops) config.dropout = 0.2;  // drops other elements in each replay
      if (tokens) config.input = "tokens";
      config.vocabulary = 11;
      TrainConfig training;
      training.steps = 12;
      training.batch = 8;
      training.warmup = 3;
      training.precision = precision;
      training.accumulate = accumulate;
      torch::manual_seed(2);
      const auto x =
          (tokens ? torch::randint(11, {40, 31}, torch::kInt64) : torch::randn({40, 31, 6}))
              .to(device_);
      const auto y = tokens ? x.roll(1, -1) : torch::tanh(x.roll(1, -1));
      const DeviceData data{x, y, x, y};
      const auto batch_of = [&](int64_t step) {
        LoopBatch batch;
        for (int64_t i = 0; i < training.batch; ++i) batch.rows.push_back((7 * step + i) % 40);
        return batch;
      };
      const auto make = [&] {
        auto model = with_seed(9, [&] { return std::make_shared<Transformer>(config); });
        model->to(device_);
        return model;
      };
      const auto recorded = make(), plain = make();
      TrainingStep recorded_step(*recorded, {}), plain_step(*plain, {});
      DeviceLoop loop(*recorded, recorded_step, training, data, batch_of, 0, /*window=*/7);
      const Schedule schedule{.peak = training.lr,
                              .floor = training.min_lr,
                              .warmup = training.warmup,
                              .total = training.steps};
      for (int64_t step = 0; step < training.steps; ++step) {
        loop.step();
        const auto rows = torch::tensor(batch_of(step).rows, torch::kInt64).to(device_);
        const ExecutionScope scope(precision_from(precision));
        plain_step.set_pass(training.seed, torch::full({1}, step, torch::kInt64).to(device_));
        const auto wanted = plain_step.run(x.index_select(0, rows), y.index_select(0, rows),
                                           schedule.at(step), accumulate);
        EXPECT_NEAR(loop.numbers(step).loss / wanted.loss.item<double>(), 1.0,
                    precision != "fp32" ? 0.02 : 1e-4)
            << connection << " " << precision << " step " << step;
        auto& kept = recorded_step.parameters();
        EXPECT_EQ(kept.gradients().abs().max().item<float>(), 0) << "for the next step";
        ASSERT_EQ(kept.product_values().defined(), precision != "fp32");
        if (precision != "fp32") {
          EXPECT_TRUE(torch::equal(kept.product_values(), kept.values().to(torch::kBFloat16)))
              << connection << " step " << step;
        }
      }
    }
}

// Loss and gradients of a training step whose state is kept in bfloat16, with every kind of mixer.
TEST_F(Gpu, ARecursiveModelMayKeepItsStateInBfloat16) {
  for (const auto* mixer : {"none", "cayley", "sinkhorn", "identity", "edelta", "shc"}) {
    const RecursiveOptions options{.mixer = mixer,
                                   .layout = "expand",
                                   .width = 64,
                                   .streams = 4,
                                   .heads = 2,
                                   .prefix = 1,
                                   .identifiers = 5,
                                   .h_cycles = 2,
                                   .l_cycles = 2,
                                   .act_steps = 2,
                                   .hidden = 4};
    const auto model = with_seed(1, [&] {
      return std::make_shared<Recursive>(options,
                                         InputShape{.length = 9, .width = 1, .vocabulary = 6});
    });
    model->to(device_);
    torch::manual_seed(3);
    const auto tokens = torch::randint(5, {16, 19}, torch::kInt64).to(device_);
    const Batch batch{tokens.slice(1, 0, 10), tokens.slice(1, 10)};
    struct Made {
      double loss;
      Tensor gradient;
    };
    const auto run = [&](const char* precision) {
      const ExecutionScope scope(precision_from(precision));
      for (const auto& parameter : model->parameters()) parameter.mutable_grad() = Tensor();
      auto carry = model->initial_carry(16);
      const auto made = model->objective(batch, carry);
      made.total().backward();
      const auto answer = carry.at("answer");
      EXPECT_EQ(answer.scalar_type(), torch::kFloat32) << mixer;
      EXPECT_EQ(torch::equal(answer, answer.to(torch::kBFloat16).to(torch::kFloat32)),
                precision == std::string("bf16_state"))
          << mixer << " " << precision;
      std::vector<Tensor> all;
      for (const auto& parameter : model->parameters())
        if (parameter.grad().defined()) all.push_back(parameter.grad().flatten());
      return Made{made.mean().item<double>(), torch::cat(all)};
    };
    const auto full = run("fp32"), products = run("bf16"), kept = run("bf16_state");
    // The amplification of rounding depends on the model: with rounded products Sinkhorn's initial
    // gradients change by their own size, those of the others by a hundredth.
    const auto loss_error = [&](const Made& one) { return std::abs(one.loss / full.loss - 1); };
    const auto error = [&](const Made& one) {
      return ((one.gradient - full.gradient).norm() / full.gradient.norm()).item<double>();
    };
    EXPECT_LT(loss_error(kept), 0.01 + 4 * loss_error(products)) << mixer;
    EXPECT_LT(error(kept), 0.05 + 4 * error(products)) << mixer;
  }
}

// Work that a later run launches on a stream must not enter the recording of an earlier run.
TEST_F(Gpu, ARunHasAStreamOfItsOwn) {
  const auto stream_here = [] {
    kernels::CudaStream stream = nullptr;
    if constexpr (kernels::kHasCuda) stream = fused::current_cuda_stream();
    return stream;
  };
  const OwnCudaStream first(device_);
  const auto own = stream_here();
  kernels::CudaStream other = nullptr;
  for (int run = 0; run < 40; ++run) {
    std::thread([&] {
      const OwnCudaStream later(device_);
      EXPECT_NE(stream_here(), own) << run;
      if (run > 0) {
        EXPECT_EQ(stream_here(), other) << "it was free again";
      }
      other = stream_here();
    }).join();
  }
}

// As in an evaluation outside of a training step.
TEST_F(Gpu, WorkOfTheDefaultStreamIsRecordedInOrder) {
  const auto x = torch::ones({5}, device_);
  RecordedWork work(device_, [&] { x.mul_(2); });
  float wanted = 1;
  for (int i = 0; i < 6; ++i) {
    x.add_(1);
    work.run();
    wanted = (wanted + 1) * 2;
    EXPECT_EQ(x.sum().item<float>(), 5 * wanted) << i;
  }
}

TEST_F(Gpu, AStreamIsGoodForOtherWorkAfterAnErrorInARecording) {
  const OwnCudaStream cuda_stream(device_);
  const auto x = torch::ones({5}, device_);
  int runs = 0;
  RecordedWork failing(device_, [&] {
    x.add_(1);
    if (++runs == 4) throw std::runtime_error("in the recording");
  });
  for (int i = 0; i < 3; ++i) failing.run();
  EXPECT_THROW(failing.run(), std::runtime_error);
  EXPECT_EQ(x.sum().item<float>(), 5 * 4) << "recording does not run the work";
  RecordedWork again(device_, [&] { x.add_(1); });
  for (int i = 0; i < 6; ++i) again.run();
  EXPECT_EQ(x.sum().item<float>(), 5 * 10);
}

}  // namespace
}  // namespace geores
