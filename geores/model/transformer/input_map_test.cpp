// A fixed isometry as the first linear map.
#include <gtest/gtest.h>

#include "geores/model/transformer/cached_decoder.h"
#include "geores/model/transformer/parameter_budget.h"
#include "geores/model/transformer/small_transformer.h"
#include "geores/testing/gradient_check.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

TransformerConfig with_isometry(const std::string& past = "none") {
  auto config = small_transformer();
  config.input_map = "isometry";
  config.input_start = 5;
  config.past = {.what = past, .gain = 3};
  return config;
}

TEST(InputMap, AnIsometryKeepsAngles) {
  for (const int64_t values : {int64_t{1}, int64_t{5}, kSmallWidth}) {
    auto config = with_isometry();
    config.input_width = values;
    const auto map = model_of(config)->input_end().weight;
    ASSERT_EQ(map.sizes(), torch::IntArrayRef({kSmallWidth, values}));
    // The mean length of columns of N(0, (5 · 0.02)²).
    const auto length = 0.1 * 0.1 * static_cast<double>(kSmallWidth);
    EXPECT_LT(largest(map.t().mm(map) - length * torch::eye(values, torch::kFloat64)), 1e-7);
    if (values < kSmallWidth) {
      EXPECT_LT(largest(map.sum(0)), 1e-6);
    }
  }
}

// The purpose of the option: a LayerNorm of the first state is linear in vectors of one length.
TEST(InputMap, AnIsometryMakesANormOfItLinear) {
  const auto isometric = model_of(with_isometry()), learned = model_of(small_transformer());
  auto x = example();
  x = x / x.norm(2, -1, true);
  const auto scales = [&](Transformer& model) {
    return x.matmul(model.input_end().weight.t()).std(-1, false);
  };
  const auto spread = [](const Tensor& scale) { return largest(scale / scale.mean() - 1); };
  EXPECT_LT(spread(scales(*isometric)), 1e-6);
  EXPECT_GT(spread(scales(*learned)), 0.1);
}

TEST(InputMap, AnIsometryIsNoParameter) {
  const auto model = model_of(with_isometry());
  const auto x = example();
  outputs_of(*model, x).square().sum().backward();
  for (const auto& item : model->named_parameters()) {
    EXPECT_NE(item.key(), "input.weight");
    EXPECT_TRUE(item.value().grad().defined()) << item.key();
  }
  EXPECT_FALSE(model->input_end().weight.requires_grad());
  EXPECT_EQ(
      parameter_budget(small_transformer()).outside - parameter_budget(with_isometry()).outside,
      5 * kSmallWidth);
}

TEST(InputMap, GradientsAreThoseOfCentralDifferences) {
  for (const auto* past : {"none", "both"}) {
    const auto model = model_of(with_isometry(past));
    auto x = example().requires_grad_(true);
    auto named = model->named_parameters();
    const auto check = check_gradients(
        [&] { return outputs_of(*model, x); },
        {{"x", x}, {"positions", named["positions"]}, {"input_bias", named["input_bias"]}});
    EXPECT_LT(check.error, 1e-7) << past << " " << check.worst;
  }
}

TEST(InputMap, ADecoderReadsWhatTheModelPredicts) {
  for (const auto* past : {"none", "both"})
    for (const auto* positions : {"learned", "rotary"}) {
      auto config = with_isometry(past);
      config.sublayers.positions = positions;
      const auto model = model_of(config);
      const auto x = example(), whole = outputs_of(*model, x);
      CachedDecoder decoder(*model, 2);
      for (int64_t t = 0; t < x.size(1); ++t)
        EXPECT_LT(largest(decoder.step(x.select(1, t)) - whole.select(1, t)), 1e-12)
            << past << " " << positions << " " << t;
    }
}

TEST(InputMap, RefusesWhatHasNoIsometry) {
  auto config = with_isometry();
  config.input_width = kSmallWidth + 1;
  EXPECT_EQ(refusal([&] { Transformer model(config); }),
            "[transformer] an isometry of 25 values needs a width of at least as many, got 24");
  config.input = "tokens";
  EXPECT_EQ(refusal([&] { Transformer model(config); }),
            "[transformer] input_map = isometry is for vectors, not tokens");
}

}  // namespace
}  // namespace geores
