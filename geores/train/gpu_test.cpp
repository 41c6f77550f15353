// What must hold on a GPU; skipped where there is none. The operations themselves are compared in
// ops/fused_test.cpp, which runs on a GPU too.
#include <gtest/gtest.h>

#include <cmath>

#include "geores/ops/attention.h"
#include "geores/ops/implementation.h"
#include "geores/ops/precision.h"
#include "geores/ops/seeding.h"
#include "geores/residual/registry.h"
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

double relative_error(const Tensor& a, const Tensor& b) {
  const auto left = a.to(torch::kFloat64), right = b.to(torch::kFloat64);
  return (left - right).norm().item<double>() / (right.norm().item<double>() + 1e-30);
}

struct Pass {
  std::vector<std::pair<std::string, Tensor>> tensors;  // output, auxiliary loss, all gradients
};

// A connection around a small sublayer, forward and backward.
Pass pass_of(Residual& residual, const Tensor& input, const Tensor& middle,
             const Tensor& cotangent) {
  for (const auto& parameter : residual.parameters()) parameter.mutable_grad() = Tensor();
  const auto x = input.detach().clone().requires_grad_(true);
  Trace trace;
  const Sublayer f(
      [&](const Tensor& h) { return torch::tanh(h.matmul(middle.to(h.scalar_type()))); });
  const auto out = residual.forward(x, f, trace);
  auto loss = (out * cotangent).sum();
  if (trace.loss().defined()) loss = loss + 3 * trace.loss();
  loss.backward();
  Pass pass{{{"output", out.detach()}, {"dx", x.grad()}}};
  if (trace.loss().defined()) pass.tensors.emplace_back("auxiliary", trace.loss().detach());
  for (const auto& item : residual.named_parameters())
    if (item.value().grad().defined()) pass.tensors.emplace_back(item.key(), item.value().grad());
  return pass;
}

void expect_fused_equals_composed(const torch::Device& device, torch::ScalarType dtype,
                                  const std::string& precision, double tolerance, int64_t width,
                                  int64_t length) {
  for (const auto& connection : connections())
    for (const auto& options : connection.variants) {
      auto used = options.is_null() ? nlohmann::json::object() : options;
      // The implicit gradient is that of the limit: its two forms differ until it is reached.
      if (connection.name == "mhc" || used.value("mixer", "") == "sinkhorn")
        used["sinkhorn_gradient"] = "unrolled";
      const auto residual = connection.make({.width = width, .streams = 4, .options = used});
      const auto& traits = residual->traits();
      {
        torch::NoGradGuard no_grad;  // away from starts at which gradients vanish
        for (const auto& parameter : residual->parameters())
          if (residual->manifold_parameters().empty())
            parameter.add_(0.1 * torch::randn_like(parameter));
      }
      residual->to(device, dtype);
      auto shape = std::vector<int64_t>{3, length, traits.state_width};
      if (traits.layout == StreamLayout::expand)
        shape = {3, length, traits.streams, traits.state_width / traits.streams};
      const auto typed = torch::TensorOptions(dtype).device(device);
      const auto x = torch::randn(shape, typed), cotangent = torch::randn(shape, typed);
      const auto middle = torch::randn({traits.sublayer_width, traits.sublayer_width}, typed) /
                          std::sqrt(static_cast<double>(traits.sublayer_width));
      const auto run = [&](Implementation implementation, const std::string& of_products) {
        const ImplementationScope form(implementation);
        const PrecisionScope scope(of_products);
        return pass_of(*residual, x, middle, cotangent);
      };
      const auto fused = run(Implementation::fused, precision);
      const auto composed = run(Implementation::composed, "fp32");
      // In bfloat16 the two forms round at different places: each is as far from full precision as
      // such products are, and the composed form says how far that is.
      const auto rounded = run(Implementation::composed, precision);
      ASSERT_EQ(fused.tensors.size(), composed.tensors.size());
      for (size_t i = 0; i < fused.tensors.size(); ++i) {
        // Parameters that hardly matter: their gradients are all rounding.
        const auto scale = composed.tensors[i].second.to(torch::kFloat64).norm().item<double>();
        if (scale < 1e-6 * std::sqrt(static_cast<double>(composed.tensors[i].second.numel())))
          continue;
        const auto& wanted = composed.tensors[i].second;
        // A scale's or a bias's one number is a sum over all tokens that nearly cancels: what is
        // left is the rounding of the products.
        if (precision == "bf16" && wanted.numel() == 1) continue;
        const auto rounding = relative_error(rounded.tensors[i].second, wanted);
        EXPECT_LT(relative_error(fused.tensors[i].second, wanted), tolerance + 2 * rounding)
            << connection.name << " " << options.dump() << " " << precision << " "
            << fused.tensors[i].first << " width " << width;
      }
    }
}

TEST_F(Gpu, EveryConnectionFusedEqualsComposedInDouble) {
  expect_fused_equals_composed(device_, torch::kFloat64, "fp32", 1e-9, 128, 9);
  expect_fused_equals_composed(device_, torch::kFloat64, "fp32", 1e-9, 20, 7);
}

TEST_F(Gpu, EveryConnectionFusedEqualsComposedInFloat) {
  expect_fused_equals_composed(device_, torch::kFloat32, "fp32", 2e-3, 128, 65);
  expect_fused_equals_composed(device_, torch::kFloat32, "fp32", 2e-3, 20, 7);
}

TEST_F(Gpu, EveryConnectionFusedEqualsComposedWithProductsInBfloat16) {
  expect_fused_equals_composed(device_, torch::kFloat32, "bf16", 1e-2, 128, 65);
}

TEST_F(Gpu, AttentionInBfloat16EqualsItsDefinition) {
  for (const int64_t width : {32, 64})
    for (const int64_t length : {1, 2, 15, 16, 17, 33, 127, 255, 256}) {
      constexpr int64_t batch = 3, heads = 2;
      const auto qkv = torch::randn({batch, length, 3 * heads * width}, device_);
      const auto cotangent = torch::randn({batch, length, heads * width}, device_);
      const auto run = [&](const Tensor& x) {
        const auto leaf = x.detach().requires_grad_(true);
        const auto out = causal_attention(leaf, heads);
        out.backward(cotangent.to(out.scalar_type()));
        return std::pair(out.detach(), leaf.grad());
      };
      const auto rounded = qkv.to(torch::kBFloat16);
      const auto [half, dhalf] = run(rounded);
      const ImplementationScope form(Implementation::composed);
      const auto [full, dfull] = run(rounded.to(torch::kFloat64));
      EXPECT_LT(relative_error(half, full), 5e-3) << width << " " << length;
      EXPECT_LT(relative_error(dhalf, dfull), 1e-2) << width << " " << length;
    }
}

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
