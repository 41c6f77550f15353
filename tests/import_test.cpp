// Public weights under our names give the outputs of the public code.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "geores/base/error.h"
#include "geores/model/transformer/transformer.h"
#include "geores/residual/registry.h"
#include "geores/storage/state_file.h"
#include "lab/reference/import.h"
#include "lab/reference/public_names.h"

namespace geores {
namespace {

Safetensors golden(const std::string& name) {
  return Safetensors::load(GEORES_GOLDEN_DIR "/" + name + ".safetensors");
}

// A model with the imported weights, in float64.
std::shared_ptr<Transformer> model_of(const ImportedWeights& imported, nlohmann::json extra) {
  auto options = imported.options;
  options.update(extra);
  const auto take = [&](const char* key) {
    const auto value = options.at(key).get<int64_t>();
    options.erase(key);
    return value;
  };
  const auto connection = options.at("connection").get<std::string>();
  options.erase("connection");
  auto model = std::make_shared<Transformer>(TransformerConfig{.connection = connection,
                                                               .input = "tokens",
                                                               .layers = take("layers"),
                                                               .width = take("width"),
                                                               .heads = 2,
                                                               .streams = take("streams"),
                                                               .context = take("context"),
                                                               .vocabulary = take("vocabulary"),
                                                               .options = options});
  model->to(torch::kFloat64);
  const auto file = Safetensors::parse(imported.weights.serialize(), "memory");
  const torch::NoGradGuard no_grad;
  for (const auto& item : model->named_parameters())
    item.value().copy_(to_tensor(file.at(item.key())));
  return model;
}

double error_of(Transformer& model, const Safetensors& file) {
  Trace trace;
  return (model.forward(to_tensor(file.at("x")), trace) - to_tensor(file.at("out")))
      .abs()
      .max()
      .item<double>();
}

TEST(Import, GivesTheOutputsOfThePublicCode) {
  for (const auto* kind : {"lm_gpt", "lm_hc", "lm_mhc", "lm_mhc_lite"}) {
    const auto file = golden(kind);
    const auto imported = import_weights(file, kind, kind);
    const auto model = model_of(imported, std::string(kind) == "lm_mhc"
                                              ? nlohmann::json{{"sinkhorn_iterations", 5}}
                                              : nlohmann::json::object());
    EXPECT_LT(error_of(*model, file), 1e-9) << kind;
  }
}

// A gain g of the norm before the routes is part of the projections: doubling the projections'
// input by g = 1 is what halving the public weights undoes.
TEST(Import, FoldsTheGainOfTheNorm) {
  for (const auto* kind : {"lm_hc", "lm_mhc"}) {
    const auto file = golden(kind);
    SafetensorsWriter writer;
    for (const auto& name : file.names()) {
      if (!name.starts_with("param/")) continue;
      auto value = to_tensor(file.at(name));
      if (name.find(".dynamic_") != std::string::npos && name.ends_with("_fn")) {
        value = value / 2;
        if (name.ends_with("alpha_fn"))
          add_tensor(writer, name.substr(6, name.rfind('.') - 6) + ".norm.gamma",
                     torch::ones({value.size(0)}, torch::kFloat64));
      }
      add_tensor(writer, name.substr(6), value);
    }
    const auto changed = Safetensors::parse(writer.serialize(), "memory");
    const auto model =
        model_of(import_weights(changed, kind, "memory"),
                 std::string(kind) == "lm_mhc" ? nlohmann::json{{"sinkhorn_iterations", 5}}
                                               : nlohmann::json::object());
    EXPECT_LT(error_of(*model, file), 1e-9) << kind;
  }
}

// The dump's two connections as the two halves of a layer, under both sets of names.
TEST(Import, FindsTheHyperConnectionsOfDeepSeekV4) {
  const auto file = golden("mhc_v4");
  for (const bool dashed : {true, false}) {
    SafetensorsWriter writer;
    for (const auto& [number, half] : {std::pair("0", "attn"), std::pair("1", "ffn")})
      for (const std::string part : {"fn", "base", "scale"})
        add_tensor(writer,
                   dashed ? "layers.0.hc_" + std::string(half) + "_" + part
                          : "model.layers.0." + std::string(half) + "_hc." + part,
                   to_tensor(file.at("param/connections." + std::string(number) + "." + part)));
    for (const std::string part : {"fn", "base", "scale"})
      add_tensor(writer, dashed ? "hc_head_" + part : "model.hc_head.hc_" + part,
                 to_tensor(file.at("param/head.hc_" + part)));
    add_tensor(writer, "layers.0.attn.wq", torch::ones({2}));
    const auto changed = Safetensors::parse(writer.serialize(), "memory");
    const auto imported = import_weights(changed, "v4", "memory");
    EXPECT_EQ(imported.tensors, 2 * 9 + 3);
    EXPECT_EQ(imported.options["streams"], 4);
    EXPECT_EQ(imported.options["width"], 8);
    const auto ours = Safetensors::parse(imported.weights.serialize(), "memory");
    const auto base = to_tensor(file.at("param/connections.1.base"));
    const auto bias = to_tensor(ours.at("blocks.0.mlp_residual.res.bias"));
    EXPECT_EQ(bias[1][2].item<double>(), base[8 + 2 * 4 + 1].item<double>()) << "transposed";
    EXPECT_EQ(to_tensor(ours.at("blocks.0.attention_residual.post.scale")).item<double>(),
              to_tensor(file.at("param/connections.0.scale"))[1].item<double>());
    EXPECT_TRUE(ours.contains("head.weights.weight"));
  }
}

// Four connections, two layers, no head.
TEST(Import, FindsTheHyperConnectionsOfDeepSeekV41) {
  const auto file = golden("mhc_v41");
  SafetensorsWriter writer;
  for (int64_t i = 0; i < 4; ++i)
    for (const std::string part : {"fn", "base", "scale"})
      add_tensor(writer,
                 fmt::format("layers.{}.hc_{}_{}", i / 2, i % 2 == 0 ? "attn" : "ffn", part),
                 to_tensor(file.at(fmt::format("param/connections.{}.{}", i, part))));
  const auto imported =
      import_weights(Safetensors::parse(writer.serialize(), "memory"), "v41", "memory");
  EXPECT_EQ(imported.tensors, 4 * 9);
  EXPECT_EQ(
      imported.options,
      (nlohmann::json{
          {"connection", "mhc"}, {"form", "v41"}, {"layers", 2}, {"streams", 4}, {"width", 8}}));
  const auto ours = Safetensors::parse(imported.weights.serialize(), "memory");
  EXPECT_TRUE(torch::equal(to_tensor(ours.at("blocks.1.mlp_residual.pre.weight")),
                           to_tensor(file.at("param/connections.3.fn")).slice(0, 0, 4)));
}

TEST(Import, RefusesWhatIsMissing) {
  const auto file = golden("lm_mhc");
  const auto message = [&](const Safetensors& from, const std::string& kind) -> std::string {
    try {
      import_weights(from, kind, "weights");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(file, "lm_gpt"), "[weights] tensor 'transformer.h.0.ln_1.weight' is missing");
  EXPECT_EQ(message(file, "v4"), "[weights] tensor 'layers.0.attn_hc.fn' is missing");
  EXPECT_EQ(message(file, "lm_mch"), "[reference] unknown kind 'lm_mch', did you mean 'lm_mhc'?");
  EXPECT_NE(message(file, "lm_mhc_lite").find("gives"), std::string::npos)
      << message(file, "lm_mhc_lite");
}

}  // namespace
}  // namespace geores
