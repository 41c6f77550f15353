// A share of earlier embeddings in the first state.
#include "geores/model/transformer/past.h"

#include <gtest/gtest.h>

#include "geores/model/transformer/cached_decoder.h"
#include "geores/model/transformer/parameter_budget.h"
#include "geores/model/transformer/small_transformer.h"
#include "geores/testing/gradient_check.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

const std::vector<std::string> kPasts = {"mean", "previous", "both"};

TransformerConfig with_past(const std::string& what, const std::string& connection = "additive") {
  auto config = small_transformer(connection);
  config.past = {.what = what, .gain = 3};
  return config;
}

// Shares start at 0: the test changes them.
std::shared_ptr<Transformer> past_model(const TransformerConfig& config) {
  auto model = model_of(config);
  const torch::NoGradGuard no_grad;
  torch::manual_seed(8);
  for (auto& item : model->named_parameters())
    if (item.key().starts_with("past.")) item.value().normal_(0, 0.3);
  return model;
}

TEST(Past, IsItsDefinition) {
  for (const auto& what : kPasts) {
    const PastOptions options{.what = what, .gain = 3};
    Past past(options, kSmallWidth);
    past.to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    for (auto& parameter : past.parameters()) parameter.normal_();
    const auto e = torch::randn({2, 6, kSmallWidth}, torch::kFloat64);
    const auto share = [&](const char* name) {
      return what == name || what == "both" ? 3 * past.named_parameters()[name]
                                            : torch::zeros({kSmallWidth}, torch::kFloat64);
    };
    const auto y = past.with_previous(e), out = past.with_mean(y);
    for (int64_t t = 0; t < e.size(1); ++t) {
      const auto now = e.select(1, t), before = e.select(1, std::max<int64_t>(0, t - 1));
      EXPECT_LT(largest(y.select(1, t) - now - share("previous") * (before - now)), 1e-13)
          << what << " " << t;
      const auto own = y.select(1, t), mean = y.slice(1, 0, t + 1).mean(1);
      EXPECT_LT(largest(out.select(1, t) - own - share("mean") * (mean - own)), 1e-13)
          << what << " " << t;
    }
  }
}

TEST(Past, WithSharesOfZeroEveryConnectionIsAsWithout) {
  for (const auto& connection : connections()) {
    auto config = with_past("both", connection.name);
    const auto started = model_of(config), moved = past_model(config);
    config.past = {};
    const auto plain = past_model(config);
    const auto x = example();
    EXPECT_TRUE(torch::equal(outputs_of(*started, x), outputs_of(*plain, x))) << connection.name;
    EXPECT_GT(largest(outputs_of(*moved, x) - outputs_of(*plain, x)), 1e-3) << connection.name;
  }
}

TEST(Past, TheRunningMeanIsAShareOfOne) {
  const auto model = past_model(with_past("mean")), plain = past_model(with_past("none"));
  const auto x = example();
  const torch::NoGradGuard no_grad;
  model->named_parameters()["past.mean"].fill_(1.0 / 3);
  EXPECT_LT(largest(model->initial_state(x) - pooled(plain->initial_state(x), Pool::causal)),
            1e-15);
}

TEST(Past, GradientsAreThoseOfCentralDifferences) {
  for (auto config : {with_past("mean"), with_past("previous"), with_past("both", "isometry")}) {
    const auto model = past_model(config);
    auto x = example().requires_grad_(true);
    std::vector<std::pair<std::string, Tensor>> inputs = {{"x", x}};
    for (const auto& item : model->named_parameters())
      if (item.key().starts_with("past.") || item.key().starts_with("input."))
        inputs.emplace_back(item.key(), item.value());
    ASSERT_GE(inputs.size(), 4u);
    const auto check = check_gradients([&] { return outputs_of(*model, x); }, inputs);
    EXPECT_LT(check.error, 1e-7) << config.past.what << " " << check.worst;
  }
}

TEST(Past, NoPositionSeesALaterOne) {
  for (const auto& what : kPasts) {
    const auto model = past_model(with_past(what));
    const auto x = example(), whole = outputs_of(*model, x);
    for (int64_t t = 1; t < x.size(1); ++t) {
      auto changed = x.clone();
      changed.select(1, t).add_(1);
      const auto difference = (outputs_of(*model, changed) - whole).abs();
      EXPECT_EQ(difference.slice(1, 0, t).max().item<double>(), 0.0) << what << " " << t;
      EXPECT_GT(difference.slice(1, t).max().item<double>(), 0.0);
    }
  }
}

// One position at a time, and in pieces.
TEST(Past, ADecoderReadsWhatTheModelPredicts) {
  for (const auto& what : kPasts)
    for (const auto* connection : {"additive", "isometry", "hc"}) {
      const auto model = past_model(with_past(what, connection));
      const auto x = example(), whole = outputs_of(*model, x);
      CachedDecoder decoder(*model, 2), pieces(*model, 2);
      for (int64_t t = 0; t < x.size(1); ++t)
        EXPECT_LT(largest(decoder.step(x.select(1, t)) - whole.select(1, t)), 1e-12)
            << what << " " << connection << " " << t;
      pieces.read(x.slice(1, 0, 3));
      EXPECT_LT(largest(pieces.read(x.slice(1, 3)) - whole.select(1, 6)), 1e-12)
          << what << " " << connection;
    }
  const auto model = past_model(with_past("mean"));
  EXPECT_EQ(refusal([&] { model->initial_state(example(), 2); }),
            "[transformer] past = mean at position 2 needs what came before");
}

TEST(Past, IsCountedOutsideTheBlocks) {
  const auto plain = parameter_budget(with_past("none")),
             both = parameter_budget(with_past("both"));
  EXPECT_EQ(both.outside, plain.outside + 2 * kSmallWidth);
  EXPECT_EQ(both.block(), plain.block());
}

TEST(Past, TokensHaveItToo) {
  auto config = with_past("both");
  config.input = "tokens";
  config.vocabulary = 11;
  for (const auto* positions : {"learned", "rotary"}) {
    config.sublayers.positions = positions;
    const auto model = past_model(config);
    torch::manual_seed(5);
    const auto ids = torch::randint(11, {2, 7}, torch::kInt64);
    const auto whole = outputs_of(*model, ids);
    CachedDecoder decoder(*model, 2);
    for (int64_t t = 0; t < ids.size(1); ++t)
      EXPECT_LT(largest(decoder.step(ids.select(1, t)) - whole.select(1, t)), 1e-12) << positions;
  }
}

}  // namespace
}  // namespace geores
