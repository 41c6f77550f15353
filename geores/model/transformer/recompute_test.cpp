// Gradients of a model that recomputes its states equal those of a model that keeps them.
#include "geores/model/transformer/recompute.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "geores/model/transformer/transformer.h"
#include "geores/residual/registry.h"

namespace geores {
namespace {

TransformerConfig recomputed_model(const std::string& connection) {
  return {.connection = connection,
          .layers = 2,
          .width = 24,
          .heads = 4,
          .streams = 4,
          .context = 9,
          .input_width = 5,
          .vocabulary = 11,
          .allow_noncausal = true};
}

void expect_recomputed_gradients_are_the_same(const TransformerConfig& config) {
  torch::manual_seed(3);
  const auto x = torch::randn({2, 7, 5});
  const auto cotangent = torch::randn({2, 7, 5});
  Transformer model(config);
  struct Result {
    std::vector<Tensor> exact;
    double auxiliary = 0;  // summed group by group, so the last digits differ
  };
  const auto result_of = [&](Recompute what) {
    model.set_recompute(what);
    model.zero_grad();
    Trace trace;
    auto loss = (model.forward(x, trace) * cotangent).sum();
    Result result{.exact = {loss.detach()}};
    if (trace.loss().defined()) {
      result.auxiliary = trace.loss().item<double>();
      loss = loss + trace.loss();
    }
    loss.backward();
    for (const auto& parameter : model.parameters())
      result.exact.push_back(parameter.grad().clone());
    return result;
  };
  const auto plain = result_of(Recompute::nothing);
  for (const auto what : {Recompute::blocks, Recompute::connections}) {
    const auto recomputed = result_of(what);
    EXPECT_NEAR(plain.auxiliary, recomputed.auxiliary, 1e-6 * plain.auxiliary) << config.connection;
    for (size_t i = 0; i < plain.exact.size(); ++i)
      EXPECT_TRUE(torch::equal(plain.exact[i], recomputed.exact[i]))
          << config.connection << " tensor " << i;
  }
}

TEST(Recompute, GivesTheSameGradientsBitForBit) {
  for (const auto& connection : connections()) {
    auto config = recomputed_model(connection.name);
    // Groups of two blocks, or of three or four for option connections; the last one is smaller.
    config.layers = 23;
    expect_recomputed_gradients_are_the_same(config);
  }
}

// Groups hand on the read weights, too.
TEST(Recompute, CarriesTheReadWeightsOfDeepSeekV41) {
  auto config = recomputed_model("mhc");
  config.options = {{"form", "v41"}};
  config.layers = 7;
  expect_recomputed_gradients_are_the_same(config);
}

TEST(Recompute, TwoHundredLayersGiveTheSameGradientsBitForBit) {
  for (const auto* connection : {"additive", "mgt", "shc"}) {
    auto config = recomputed_model(connection);
    config.layers = 200;
    expect_recomputed_gradients_are_the_same(config);
  }
}

}  // namespace
}  // namespace geores
