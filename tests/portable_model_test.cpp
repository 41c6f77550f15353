// geores/portable against geores/model: every registered connection with every option that changes
// its structure, all parameters drawn at random, in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "geores/base/formats/safetensors.h"
#include "geores/model/transformer/cached_decoder.h"
#include "geores/model/transformer/transformer.h"
#include "geores/portable/model.h"
#include "geores/residual/registry.h"
#include "geores/storage/state_file.h"
#include "geores/testing/testing.h"

namespace geores {
namespace {

constexpr int64_t kPositions = 9, kInputWidth = 5;

struct PortableCase {
  std::string connection;
  nlohmann::json options;
  int64_t streams = 4;
  SublayerOptions sublayers = {};

  std::string name() const {
    return connection + " " + options.dump() + " " + std::to_string(streams) + " streams, maps " +
           sublayers.maps;
  }
};

// The options of a run that was made before some of them existed.
nlohmann::json of_an_earlier_run(const Connection& connection, nlohmann::json variant) {
  for (const auto& [key, value] : connection.in_earlier_runs.items())
    if (!variant.contains(key)) variant[key] = value;
  return variant;
}

// Those of a run of today, whose configuration has them all.
nlohmann::json of_a_run(const Connection& connection, nlohmann::json variant) {
  for (const auto& option : connection.options)
    if (!variant.contains(option.key))
      variant[option.key] = connection.option_from_text(option.key, option.default_text);
  return variant;
}

bool runs_portably(const Connection& connection, const nlohmann::json& variant) {
  for (const auto* key :
       {"read_norm", "generator_norm", "reflection", "branch_power", "dynamic", "layout"})
    if (variant.contains(key)) return false;
  if (connection.name == "jpmhc" && variant.value("mixer", "") == "identity") return false;
  if (variant.value("form", "") == "v41") return false;
  return true;
}

bool existed_in_earlier_runs(const Connection& connection, const nlohmann::json& variant) {
  for (const auto* key : {"form", "mixer", "fixed_amplitude"})
    if (connection.name != "jpmhc" && variant.contains(key)) return false;
  return true;
}

// Every connection as its registry entry varies it, with each pool, and with other numbers of
// streams.
std::vector<PortableCase> all_cases() {
  std::vector<PortableCase> cases;
  for (const auto& connection : connections()) {
    std::vector<nlohmann::json> variants;
    for (const auto& variant : connection.variants)
      if (runs_portably(connection, variant)) {
        variants.push_back(of_a_run(connection, variant));
        if (!connection.in_earlier_runs.empty() && existed_in_earlier_runs(connection, variant))
          variants.push_back(of_an_earlier_run(connection, variant));
      }
    for (const auto& variant : variants) {
      cases.push_back({connection.name, variant});
      bool pools = false;
      for (const auto& option : connection.options) pools |= option.key == "pool";
      if (!pools) continue;
      for (const char* pool : {"causal", "token"}) {
        auto pooled = variant;
        pooled["pool"] = pool;
        cases.push_back({connection.name, pooled});
      }
    }
    if (variants.empty()) continue;
    cases.push_back({connection.name, variants.front(), 2});
    cases.push_back({connection.name, variants.back(), 6});
  }
  return cases;
}

std::unique_ptr<Transformer> random_model(const PortableCase& one) {
  torch::manual_seed(7);
  auto model = std::make_unique<Transformer>(TransformerConfig{.connection = one.connection,
                                                               .layers = 2,
                                                               .width = 24,
                                                               .heads = 2,
                                                               .streams = one.streams,
                                                               .context = kPositions + 1,
                                                               .input_width = kInputWidth,
                                                               .sublayers = one.sublayers,
                                                               .options = one.options});
  model->to(torch::kFloat64);
  torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters())
    parameter.add_(0.2 * torch::randn_like(parameter));  // away from the start
  return model;
}

std::vector<std::byte> file_of(const Transformer& model) {
  SafetensorsWriter writer;
  add_state(writer, model);
  return writer.serialize();
}

portable::Model portable_of(const Transformer& model, const PortableCase& one,
                            const std::vector<std::byte>& file) {
  const auto& config = model.config();
  auto keys = nlohmann::json::object();  // all options, as a run's config.json has them
  const auto& connection = find_connection(config.connection);
  for (const auto& option : connection.options)
    keys[option.key] = connection.option_from_text(option.key, option.default_text);
  if (one.options.is_object()) keys.update(one.options);
  keys.update({{"connection", config.connection},
               {"layers", config.layers},
               {"width", config.width},
               {"heads", config.heads},
               {"streams", config.streams},
               {"maps", one.sublayers.maps},
               {"maps_side", one.sublayers.maps_side}});
  return portable::Model(portable::Weights(file, one.name().c_str()),
                         portable::JsonDocument(keys.dump(), "config").root());
}

// The largest difference over the largest value, where that is above 1.
double largest_difference(const Tensor& a, const std::vector<double>& b) {
  const auto other = torch::from_blob(const_cast<double*>(b.data()), a.sizes(), torch::kFloat64);
  return (a - other).abs().max().item<double>() / std::max(1.0, a.abs().max().item<double>());
}

void expect_agreement(const std::vector<PortableCase>& cases) {
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name());
    const auto model = random_model(one);
    const auto file = file_of(*model);
    auto portable = portable_of(*model, one, file);
    EXPECT_EQ(portable.causal(), model->causal());

    torch::NoGradGuard no_grad;
    const auto x = torch::randn({1, kPositions, kInputWidth}, torch::kFloat64);
    Trace trace;
    const auto expected = model->forward(x, trace);
    std::vector<double> y(kPositions * kInputWidth);
    portable.forward(x.data_ptr<double>(), 0, kPositions, y.data());
    EXPECT_LT(largest_difference(expected, y), 1e-12);

    if (!model->causal()) continue;
    CachedDecoder decoder(*model);
    for (int t = 0; t < kPositions; ++t) {
      const auto row = x.select(1, t);
      std::vector<double> one_row(kInputWidth);
      portable.forward(row.contiguous().data_ptr<double>(), t, t + 1, one_row.data());
      EXPECT_LT(largest_difference(decoder.step(row), one_row), 1e-12) << "position " << t;
    }
  }
}

TEST(PortableModel, EveryConnectionAgreesWithLibTorch) { expect_agreement(all_cases()); }

TEST(PortableModel, MapsAroundSublayersAgreeWithLibTorch) {
  const nlohmann::json none = nlohmann::json::object();
  expect_agreement({{"additive", none, 4, {.maps = "normal"}},
                    {"additive", none, 4, {.maps = "identity", .maps_side = "before"}},
                    {"isometry", none, 4, {.maps = "normal", .maps_side = "after"}},
                    {"isometry", none, 4, {.maps = "fixed"}},
                    {"hc", none, 2, {.maps = "normal", .branch_width = 8}},
                    {"jpmhc", none, 4, {.maps = "normal", .branch_width = 12}}});
}

// The angle of a turned plane is that of the operator's eigenvalues: cos θ = (trace − n + 2)/2.
TEST(PortableModel, AnIsometrysAngleIsThatOfItsOperator) {
  for (const auto* name : {"unitary", "reflections"}) {
    const PortableCase one{"isometry", {{"operator", name}}};
    SCOPED_TRACE(one.name());
    const auto model = random_model(one);
    const auto file = file_of(*model);
    auto portable = portable_of(*model, one, file);
    torch::NoGradGuard no_grad;
    const auto x = torch::randn({1, kPositions, kInputWidth}, torch::kFloat64);
    std::vector<double> y(kPositions * kInputWidth);
    portable.forward(x.data_ptr<double>(), 0, kPositions, y.data());
    Trace trace(/*probing=*/true);
    model->blocks().front()->attention_residual().forward(
        model->initial_state(x), [](const Tensor& h) { return h; }, trace);
    const auto operators = trace.probes().front().second;  // (1, T, n, n)
    for (int t = 0; t < kPositions; ++t)
      EXPECT_NEAR(2 * std::cos(portable.probe(0, t).angle) + 2,
                  operators[0][t].trace().item<double>(), 1e-12);
  }
}

// The page's values of an operator equal the connection's own probes.
TEST(PortableModel, ProbesAreThoseOfTheConnection) {
  for (const auto* connection : {"edelta", "edelta_stream", "ddl", "ddl_pooled"}) {
    const PortableCase one{connection, std::string(connection) == "ddl"
                                           ? nlohmann::json::object()
                                           : nlohmann::json{{"pool", "causal"}}};
    SCOPED_TRACE(one.name());
    const auto model = random_model(one);
    const auto file = file_of(*model);
    auto portable = portable_of(*model, one, file);
    torch::NoGradGuard no_grad;
    const auto x = torch::randn({1, kPositions, kInputWidth}, torch::kFloat64);
    std::vector<double> y(kPositions * kInputWidth);
    portable.forward(x.data_ptr<double>(), 0, kPositions, y.data());

    // The first connection sees the embedding.
    Trace trace(/*probing=*/true);
    auto& block = *model->blocks().front();
    block.attention_residual().forward(
        model->initial_state(x), [](const Tensor& h) { return h; }, trace);
    std::set<std::string> seen;
    for (const auto& [name, probe] : trace.probes()) {
      if (name != "gamma" && name != "beta") continue;
      seen.insert(name);
      ASSERT_EQ(probe.sizes(), (std::vector<int64_t>{1, kPositions, 1}));
      for (int t = 0; t < kPositions; ++t) {
        const auto ours = portable.probe(0, t);
        EXPECT_NEAR(probe[0][t][0].item<double>(), name == "gamma" ? ours.gamma : ours.beta, 1e-12);
      }
    }
    EXPECT_TRUE(seen.contains("beta"));
    EXPECT_EQ(std::isnan(portable.probe(0, 0).gamma), !seen.contains("gamma"));
  }
}

TEST(PortableModel, RefusesOtherSublayers) {
  const PortableCase one{"additive", nlohmann::json::object()};
  const auto model = random_model(one);
  const auto file = file_of(*model);
  for (const auto& [key, value] : std::map<std::string, std::string>{{"attention", "full"},
                                                                     {"positions", "rotary"},
                                                                     {"mlp", "swiglu"},
                                                                     {"read_norm", "none"},
                                                                     {"generator_norm", "rms"},
                                                                     {"reflection", "whole"},
                                                                     {"past", "mean"},
                                                                     {"input_map", "isometry"},
                                                                     {"output_length", "input"}}) {
    auto changed = one;
    changed.options[key] = value;
    const auto why = refusal([&] { portable_of(*model, changed, file); });
    EXPECT_NE(why.find(key + " is '" + value + "'"), std::string::npos) << why;
  }
}

TEST(PortableModel, RefusesBranchesThatAreDividedByTheirDepth) {
  const PortableCase one{"additive", {{"branch_power", 0.5}}};
  const auto model = random_model(one);
  EXPECT_EQ(refusal([&] { portable_of(*model, one, file_of(*model)); }),
            "[model] live predictions lack branch_power");
}

TEST(PortableModel, RefusesJpmhcOnStreamsOfTheFullWidth) {
  const PortableCase one{"jpmhc", {{"layout", "expand"}, {"mixer", "permutation"}}};
  const auto model = random_model(one);
  EXPECT_EQ(refusal([&] { portable_of(*model, one, file_of(*model)); }),
            "[model] live predictions lack layout expand of jpmhc");
}

TEST(PortableModel, RefusesReadingOneConnectionLater) {
  const PortableCase one{"mhc", {{"form", "v41"}}};
  const auto model = random_model(one);
  EXPECT_EQ(refusal([&] { portable_of(*model, one, file_of(*model)); }),
            "[model] live predictions lack form v41 of mhc");
}

TEST(PortableModel, RefusesStaticRoutes) {
  const PortableCase one{"hc", {{"dynamic", false}}};
  const auto model = random_model(one);
  const auto why = refusal([&] { portable_of(*model, one, file_of(*model)); });
  EXPECT_NE(why.find("pre.weight' is missing"), std::string::npos) << why;
}

}  // namespace
}  // namespace geores
