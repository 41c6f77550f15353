// Linear maps around sublayers in any connection, and the scale of initial weights.
#include "geores/model/sublayers/maps.h"

#include <gtest/gtest.h>

#include "geores/base/error.h"
#include "geores/model/transformer/cached_decoder.h"
#include "geores/model/transformer/small_transformer.h"
#include "geores/ops/run/execution.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

TransformerConfig with_sublayers(const std::string& connection, const SublayerOptions& sublayers) {
  auto config = small_transformer(connection);
  config.sublayers = sublayers;
  return config;
}

TEST(Maps, AroundAdditiveAreEdeltaWithoutAnOperator) {
  const auto additive = model_of(with_sublayers("additive", {.maps = "normal", .maps_std = 0.3}));
  auto config = with_sublayers("edelta", {});
  config.options = {{"operator", "identity"}, {"init", "reference"}};
  const auto edelta = model_of(config);
  {
    const torch::NoGradGuard no_grad;
    auto from = additive->named_parameters();
    for (const auto& item : edelta->named_parameters()) {
      // blocks.0.attention_residual.pre.weight is blocks.0.attention_maps.pre.
      auto name = item.key();
      for (const auto* map : {"pre", "post"})
        if (const auto at = name.find(std::string("residual.") + map); at != std::string::npos)
          name = name.substr(0, at) + "maps." + map;
      item.value().copy_(from[name]);
    }
  }
  EXPECT_EQ(parameter_count(*additive), parameter_count(*edelta));
  const auto x = example();
  EXPECT_LT(largest(outputs_of(*additive, x) - outputs_of(*edelta, x)), 1e-13);
}

// Both forms and the definition: H_post F(H_pre h) with the maps as products of their own.
TEST(Maps, FoldedEqualsComposedInEveryConnection) {
  for (const auto& connection : connections()) {
    const auto plain = model_of(with_sublayers(connection.name, {}));
    if (plain->residuals().front()->pre().defined()) continue;
    for (const auto* side : {"both", "before", "after"}) {
      const auto model = model_of(
          with_sublayers(connection.name, {.maps = "normal", .maps_side = side, .maps_std = 0.3}));
      const auto run = [&](Form form) {
        const ExecutionScope scope(form);
        const auto out = outputs_of(*model, example());
        torch::manual_seed(5);
        const auto loss = (out * torch::randn(out.sizes(), out.options())).sum();
        auto results = torch::autograd::grad({loss}, model->parameters(), {}, {}, false, true);
        results.push_back(out.detach());
        return results;
      };
      const auto fused = run(Form::fused), composed = run(Form::composed);
      for (size_t i = 0; i < fused.size(); ++i) {
        ASSERT_EQ(fused[i].defined(), composed[i].defined()) << connection.name << " " << i;
        if (!fused[i].defined()) continue;
        EXPECT_LT(largest(fused[i] - composed[i]), 1e-10 * std::max(1.0, largest(composed[i])))
            << connection.name << " " << side << " " << i;
      }
    }
  }
}

TEST(Maps, StartAsTheySay) {
  const auto map_of = [](const SublayerOptions& sublayers, const std::string& name) {
    return model_of(with_sublayers("additive", sublayers))
        ->named_parameters()["blocks.1.mlp_maps." + name];
  };
  const auto scaled = 0.25 * torch::eye(24, torch::kFloat64);
  EXPECT_EQ(largest(map_of({.maps = "identity", .maps_factor = 0.25}, "post") - scaled), 0.0);
  const auto drawn = map_of({.maps = "normal", .maps_std = 0.5}, "pre");
  EXPECT_NEAR(drawn.std().item<double>(), 0.5, 0.05);
  const auto untrained = model_of(with_sublayers("additive", {.maps = "fixed"}));
  EXPECT_EQ(parameter_count(*untrained),
            parameter_count(*model_of(with_sublayers("additive", {}))));
}

// A fixed factor and initial weights scaled by it are the same model; only AdamW's steps differ.
TEST(Maps, AFixedFactorChangesTheStepsAndNotTheStart) {
  const auto x = example();
  const auto plain = model_of(with_sublayers("additive", {}));
  const auto factored = model_of(with_sublayers(
      "additive", {.maps = "fixed", .maps_factor = 0.25, .first_start = 4, .last_start = 4}));
  EXPECT_LT(largest(outputs_of(*plain, x) - outputs_of(*factored, x)), 1e-14);
  const auto small = model_of(with_sublayers("additive", {.first_start = 0.5, .last_start = 0.1}));
  const auto a = plain->named_parameters(), b = small->named_parameters();
  for (const auto* first : {"attention.qkv", "mlp.up"})
    EXPECT_EQ(largest(0.5 * a["blocks.0." + std::string(first) + ".weight"] -
                      b["blocks.0." + std::string(first) + ".weight"]),
              0.0);
  for (const auto* last : {"attention.out", "mlp.down"})
    EXPECT_LT(largest(0.1 * a["blocks.0." + std::string(last) + ".weight"] -
                      b["blocks.0." + std::string(last) + ".weight"]),
              1e-9);
}

// All readers normalise the state: a state and branches that both start twice as large change
// nothing.
TEST(Maps, OnlyTheRatioOfStateAndBranchCountsAtTheStart) {
  auto config = with_sublayers("additive", {.last_start = 1024});
  config.input_start = 1024;  // makes the ε of the norms negligible
  const auto small = model_of(config);
  config.input_start *= 8;
  config.sublayers.last_start *= 8;
  const auto large = model_of(config), ratio = model_of(with_sublayers("additive", {}));
  const auto x = example(), expected = outputs_of(*small, x);
  EXPECT_LT(largest(outputs_of(*large, x) - expected), 1e-5 * largest(expected));
  EXPECT_GT(largest(outputs_of(*ratio, x) - expected), 1e-5 * largest(expected));
}

TEST(Maps, ADecoderReadsWhatTheModelPredicts) {
  for (const int64_t branch_width : {0, 8, 48}) {
    const auto model = model_of(with_sublayers(
        "additive", {.maps = "normal", .maps_std = 0.3, .branch_width = branch_width}));
    const auto x = example(), whole = outputs_of(*model, x);
    CachedDecoder decoder(*model, 2);
    for (int64_t t = 0; t < x.size(1); ++t)
      EXPECT_LT(largest(decoder.step(x.select(1, t)) - whole.select(1, t)), 1e-12)
          << branch_width << " " << t;
  }
}

// With a dropout rate that drops nothing, training equals training without dropout. The mask has
// its own tests.
TEST(Maps, AndThePastStayWhereSublayersDrop) {
  const Dropout none_dropped{.rate = 1e-12, .seed = 1, .step = torch::zeros({1}, torch::kInt64)};
  for (const auto* side : {"none", "both", "before", "after"})
    for (const auto* past : {"none", "both"}) {
      SublayerOptions sublayers{.maps_std = 0.3};
      if (side != std::string("none")) sublayers.maps = "normal", sublayers.maps_side = side;
      auto config = with_sublayers("additive", sublayers);
      config.past = {.what = past, .gain = 3};
      const auto model = model_of(config);
      {
        const torch::NoGradGuard no_grad;
        for (auto& item : model->named_parameters())
          if (item.key().starts_with("past.")) item.value().fill_(0.2);
      }
      for (const auto recompute : {Recompute::nothing, Recompute::blocks}) {
        model->set_recompute(recompute);
        const auto run = [&](const Dropout& dropout) {
          Trace trace;
          const auto loss = model->squared_error(example(), 0.1 * example(), trace, dropout);
          model->zero_grad();
          loss.backward();
          std::map<std::string, Tensor> results = {{"loss", loss.detach()}};
          for (const auto& item : model->named_parameters()) {
            const auto gradient = item.value().grad();
            results[item.key()] = gradient.defined() ? gradient.clone() : Tensor();
          }
          return results;
        };
        const auto with = run(none_dropped), without = run({});
        for (const auto& [name, expected] : without) {
          ASSERT_TRUE(expected.defined() && with.at(name).defined()) << side << " " << name;
          EXPECT_LT(largest(with.at(name) - expected), 1e-10) << side << " " << past << " " << name;
        }
      }
    }
}

TEST(Maps, RefuseWhatHasNoMeaning) {
  const auto refused = [](const std::string& connection, const SublayerOptions& sublayers) {
    return refusal([&] { Transformer model(with_sublayers(connection, sublayers)); });
  };
  EXPECT_EQ(refused("edelta", {.maps = "normal"}),
            "[transformer] edelta has linear maps of its own around its sublayers; choose maps = "
            "none");
  EXPECT_EQ(refused("additive", {.maps = "identity", .branch_width = 8}),
            "[transformer] a branch of width 8 in a connection of width 24 needs maps = normal on "
            "both sides");
}

}  // namespace
}  // namespace geores
