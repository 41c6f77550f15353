#include "geores/train/optimizer/adamw.h"

#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <cmath>

#include "geores/modules/layers.h"
#include "geores/ops/run/precision.h"
#include "geores/train/optimizer/schedule.h"

namespace geores {
namespace {

Tensor loss_of(Perceptron& model, const Tensor& x) { return model.forward(x).square().sum(); }

TEST(FlatParameters, AreTheModelsOwn) {
  Perceptron model(3, 4, 2);
  const auto x = torch::randn({5, 3});
  const auto before = model.forward(x);
  FlatParameters flat(model);
  EXPECT_EQ(flat.size(), 3 * 4 + 4 + 4 * 2 + 2);
  EXPECT_EQ(flat.decayed(), 3 * 4 + 4 * 2);
  EXPECT_TRUE(torch::equal(model.forward(x), before));

  loss_of(model, x).backward();
  double squares = 0;
  for (const auto& parameter : model.parameters())
    squares += parameter.grad().square().sum().item<double>();
  EXPECT_NEAR(flat.gradients().square().sum().item<double>(), squares, 1e-5 * squares);

  flat.values().zero_();
  EXPECT_EQ(model.forward(x).abs().max().item<float>(), 0.0f);
}

TEST(FlatParameters, DecayByRankButForExceptions) {
  Perceptron model(3, 4, 2);  // weights 12 + 8, biases 4 + 2
  EXPECT_EQ(FlatParameters(model).decayed(), 20);
  const auto named = model.named_parameters();
  FlatParameters flat(model, {}, {named["hidden.weight"], named["output.bias"]});
  EXPECT_EQ(flat.decayed(), 8 + 2);
  EXPECT_EQ(flat.size(), 26);
  torch::NoGradGuard no_grad;
  flat.values().slice(0, 0, flat.decayed()).fill_(7);
  EXPECT_TRUE((named["output.weight"] == 7).all().item<bool>());
  EXPECT_TRUE((named["output.bias"] == 7).all().item<bool>());
  EXPECT_FALSE((named["hidden.weight"] == 7).any().item<bool>());
}

TEST(FlatParameters, RespectDecayExceptions) {
  Perceptron model(3, 4, 2);
  const auto left_out = model.parameters().front();
  FlatParameters flat(model, {left_out});
  EXPECT_EQ(flat.size(), 4 + 4 * 2 + 2);
}

// The same steps with LibTorch's own AdamW and clipping.
TEST(AdamW, EqualsLibTorch) {
  torch::manual_seed(1);
  Perceptron ours(3, 8, 2), theirs(3, 8, 2);
  ours.to(torch::kFloat64);
  theirs.to(torch::kFloat64);
  const auto names = theirs.named_parameters();
  std::vector<Tensor> decayed, plain;
  {
    torch::NoGradGuard no_grad;
    for (const auto& item : ours.named_parameters()) {
      item.value().normal_();
      names[item.key()].copy_(item.value());
      (item.value().dim() >= 2 ? decayed : plain).push_back(names[item.key()]);
    }
  }
  const auto options = torch::optim::AdamWOptions(1.0).betas({0.9, 0.95}).eps(1e-8);
  torch::optim::AdamW reference(
      {torch::optim::OptimizerParamGroup(
           decayed, std::make_unique<torch::optim::AdamWOptions>(
                        torch::optim::AdamWOptions(options).weight_decay(0.1))),
       torch::optim::OptimizerParamGroup(
           plain, std::make_unique<torch::optim::AdamWOptions>(
                      torch::optim::AdamWOptions(options).weight_decay(0.0)))},
      options);
  FlatParameters flat(ours);
  AdamW adamw(flat, {});
  const Schedule schedule{.peak = 1e-2, .floor = 1e-3, .warmup = 3, .total = 20};
  for (int64_t step = 0; step < 20; ++step) {
    const auto x = torch::randn({6, 3}, torch::kFloat64);
    flat.collect_gradients(1, [&](int64_t) { loss_of(ours, x).backward(); });
    const auto norm = adamw.step(schedule.at(step)).item<double>();

    reference.zero_grad();
    loss_of(theirs, x).backward();
    const auto expected = torch::nn::utils::clip_grad_norm_(theirs.parameters(), 1.0);
    for (auto& group : reference.param_groups())
      static_cast<torch::optim::AdamWOptions&>(group.options()).lr(schedule.at(step));
    reference.step();
    EXPECT_NEAR(norm, expected, 1e-12 * expected);
  }
  for (const auto& item : ours.named_parameters())
    EXPECT_LT((item.value() - names[item.key()]).abs().max().item<double>(), 1e-12) << item.key();
}

TEST(AdamW, LeavesParametersThatAreKeptReadyReady) {
  for (const bool rates_on_device : {false, true}) {
    torch::manual_seed(1);
    Perceptron kept(3, 4, 2), plain(3, 4, 2);
    FlatParameters kept_flat(kept), plain_flat(plain);
    kept_flat.values().copy_(plain_flat.values());
    AdamW kept_adamw(kept_flat, {}), plain_adamw(plain_flat, {});
    const ExecutionScope scope(Precision::bf16);
    kept_flat.keep_ready();
    const auto expect_ready = [&] {
      kept_flat.before_replay();
      EXPECT_TRUE(
          torch::equal(kept_flat.product_values(), kept_flat.values().to(torch::kBFloat16)));
      EXPECT_EQ(kept_flat.gradients().abs().max().item<float>(), 0.0f);
    };
    expect_ready();
    const auto* address = kept_flat.product_values().data_ptr();
    for (int64_t step = 0; step < 3; ++step) {
      const auto x = torch::randn({6, 3});
      const auto take = [&](Perceptron& model, FlatParameters& flat, AdamW& adamw) {
        flat.collect_gradients(1, [&](int64_t) { loss_of(model, x).backward(); });
        const auto full = [](double value) { return torch::full({1}, value); };
        const auto t = static_cast<double>(step + 1);
        return rates_on_device ? adamw.step({.learning_rate = full(1e-2),
                                             .bias1 = full(1 - std::pow(0.9, t)),
                                             .bias2 = full(1 - std::pow(0.95, t))})
                               : adamw.step(1e-2);
      };
      EXPECT_TRUE(
          torch::equal(take(kept, kept_flat, kept_adamw), take(plain, plain_flat, plain_adamw)));
      EXPECT_TRUE(torch::equal(kept_flat.values(), plain_flat.values()));
      EXPECT_NE(plain_flat.gradients().abs().max().item<float>(), 0.0f);
      expect_ready();
    }
    kept_flat.values().mul_(2);
    expect_ready();
    {
      torch::NoGradGuard no_grad;
      for (auto& parameter : kept.parameters()) parameter.mul_(2);
    }
    expect_ready();
    EXPECT_EQ(kept_flat.product_values().data_ptr(), address)
        << "a recorded step uses this address";
    EXPECT_FALSE(plain_flat.product_values().defined());
  }
}

TEST(Schedule, WarmsUpFromZeroThenFollowsACosine) {
  const Schedule schedule{.peak = 1e-3, .floor = 1e-4, .warmup = 100, .total = 2000};
  EXPECT_EQ(schedule.at(0), 0.0);
  EXPECT_DOUBLE_EQ(schedule.at(50), 5e-4);
  EXPECT_DOUBLE_EQ(schedule.at(100), 1e-3);
  EXPECT_NEAR(schedule.at(1050), 5.5e-4, 1e-15);
  EXPECT_DOUBLE_EQ(schedule.at(2000), 1e-4);
  EXPECT_DOUBLE_EQ(schedule.at(5000), 1e-4);
}

}  // namespace
}  // namespace geores
