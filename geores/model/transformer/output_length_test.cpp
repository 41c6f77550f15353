// Predictions that have the length of the vectors before them.
#include <gtest/gtest.h>

#include "geores/model/transformer/cached_decoder.h"
#include "geores/model/transformer/small_transformer.h"
#include "geores/ops/training/loss.h"
#include "geores/testing/gradient_check.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

TransformerConfig with_kept_length(const std::string& connection = "additive",
                                   const std::string& length = "input") {
  auto config = small_transformer(connection);
  config.output_length = length;
  return config;
}

// The share starts at 0: the test changes it.
std::shared_ptr<Transformer> partly_kept() {
  const auto model = model_of(with_kept_length("additive", "learned"));
  const torch::NoGradGuard no_grad;
  torch::manual_seed(6);
  model->named_parameters()["kept_length"].uniform_(0, 0.1);
  return model;
}

TEST(OutputLength, LearnedIsBetweenFreeAndKept) {
  const auto x = example();
  const auto kept = outputs_of(*model_of(with_kept_length()), x),
             free = outputs_of(*model_of(small_transformer()), x);
  const auto started = model_of(with_kept_length("additive", "learned"));
  EXPECT_LT(largest(outputs_of(*started, x) - free), 1e-14);
  const auto model = partly_kept();
  const auto share = 10 * model->named_parameters()["kept_length"].slice(0, 0, 7).unsqueeze(-1);
  EXPECT_LT(largest(outputs_of(*model, x) - (share * kept + (1 - share) * free)), 1e-13);
}

TEST(OutputLength, IsThatOfTheInputAndTheDirectionStays) {
  for (const auto& connection : connections()) {
    const auto kept = model_of(with_kept_length(connection.name)),
               free = model_of(small_transformer(connection.name));
    const auto x = example(), out = outputs_of(*kept, x), direction = outputs_of(*free, x);
    EXPECT_LT(largest(out.norm(2, -1) - x.norm(2, -1)), 1e-12) << connection.name;
    EXPECT_LT(largest(out / x.norm(2, -1, true) - direction / direction.norm(2, -1, true)), 1e-12)
        << connection.name;
  }
}

// The training error and its gradients are those of the predictions.
TEST(OutputLength, GradientsAreThoseOfCentralDifferences) {
  const auto model = partly_kept();
  auto x = example().requires_grad_(true);
  const auto target = 0.5 * example().roll(1, 1);
  Trace trace;
  EXPECT_NEAR(model->squared_error(x, target, trace).item<double>(),
              mean_squared_error(outputs_of(*model, x), target).item<double>(), 1e-14);
  auto named = model->named_parameters();
  const auto check = check_gradients([&] { return model->squared_error(x, target, trace); },
                                     {{"x", x},
                                      {"kept_length", named["kept_length"]},
                                      {"output.weight", named["output.weight"]},
                                      {"positions", named["positions"]},
                                      {"blocks.0.mlp.up.weight", named["blocks.0.mlp.up.weight"]}});
  EXPECT_LT(check.error, 1e-7) << check.worst;
}

// One position at a time, in pieces, and with option past.
TEST(OutputLength, ADecoderReadsWhatTheModelPredicts) {
  auto config = with_kept_length();
  const auto kept = model_of(config);
  config.past = {.what = "both", .gain = 3};
  for (const auto& [past, model] : {std::pair{"none", kept},
                                    {"both", model_of(config)},
                                    {"none, partly kept", partly_kept()}}) {
    const auto x = example(), whole = outputs_of(*model, x);
    CachedDecoder decoder(*model, 2), pieces(*model, 2);
    for (int64_t t = 0; t < x.size(1); ++t)
      EXPECT_LT(largest(decoder.step(x.select(1, t)) - whole.select(1, t)), 1e-12) << past << t;
    pieces.read(x.slice(1, 0, 3));
    EXPECT_LT(largest(pieces.read(x.slice(1, 3)) - whole.select(1, 6)), 1e-12) << past;
  }
}

TEST(OutputLength, AStateAloneHasNoPrediction) {
  EXPECT_FALSE(model_of(with_kept_length())->residual_stack()->predict);
  EXPECT_TRUE(model_of(small_transformer())->residual_stack()->predict);
  auto config = with_kept_length();
  config.input = "tokens";
  EXPECT_EQ(refusal([&] { Transformer model(config); }),
            "[transformer] output_length = input is for vectors, not tokens");
}

// Weights apply in training only, have mean 1, and decay with the steps.
TEST(EarlyWeight, TrainsTheErrorWithAWeightForEachPosition) {
  auto config = small_transformer();
  config.early_weight = 1.5;
  config.early_steps = 40;
  const auto model = model_of(config);
  const auto x = example(), target = 0.5 * example().roll(1, 1);
  const auto errors = (outputs_of(*model, x) - target).square().mean(torch::IntArrayRef{0, 2});
  const auto weighted = [&](double power) {
    const auto weights = torch::arange(1, x.size(1) + 1, torch::kFloat64).pow(-power);
    return (errors * weights / weights.mean()).mean().item<double>();
  };
  const auto trained = [&] {
    Carry carry;
    return model->objective({x, target}, carry).mean().item<double>();
  };
  EXPECT_NEAR(trained(), weighted(1.5), 1e-7);
  for (const auto& [step, power] : {std::pair{0, 1.5}, {10, 1.125}, {40, 0.0}, {60, 0.0}}) {
    model->set_pass({.seed = 1, .step = torch::full({1}, step, torch::kInt64)});
    EXPECT_NEAR(trained(), weighted(power), 1e-7) << step;
  }
  EXPECT_GT(std::abs(weighted(1.5) - weighted(0)), 1e-3 * weighted(0));
  EXPECT_NEAR(model->evaluate({x, target}).mean().item<double>(), errors.mean().item<double>(),
              1e-12);
  config.input = "tokens";
  EXPECT_EQ(refusal([&] { Transformer{config}; }),
            "[transformer] early_weight is for vectors, not tokens");
}

}  // namespace
}  // namespace geores
