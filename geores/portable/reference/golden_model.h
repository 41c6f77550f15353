// A golden file's model under our own names, as a run's best.safetensors and config.json would hold
// it.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/base/formats/safetensors.h"
#include "geores/base/refusal.h"
#include "geores/portable/reference/names.h"

namespace geores {

struct GoldenModel {
  std::vector<std::byte> weights;  // safetensors
  nlohmann::json config;
};

inline std::vector<std::string> with_endings(const std::vector<std::string>& stems,
                                             const std::vector<std::string>& endings) {
  std::vector<std::string> all;
  for (const auto& stem : stems)
    for (const auto& ending : endings) all.push_back(stem + ending);
  return all;
}

// Every parameter that a connection may have.
inline std::vector<std::string> parameters_of(const std::string& connection) {
  std::vector<std::string> stems = {"norm"};
  if (connection == "edelta")
    stems = {"norm",        "u.hidden", "u.output", "v.hidden", "v.output", "beta.hidden",
             "beta.output", "k.hidden", "k.output", "gate",     "pre",      "post"};
  if (connection == "ddl_pooled")
    stems = {"norm", "k.hidden", "k.output", "beta.hidden", "beta.output"};
  if (connection == "mhc_split") stems = {"norm", "rms", "pre", "post", "res"};
  if (connection == "jpmhc") stems = {"norm", "mixer.norm", "mixer.fused"};
  if (connection == "edelta_stream")
    stems = {"norm",        "generator_norm", "generator.hidden", "generator.output",
             "router_norm", "router"};
  return with_endings(stems, {".weight", ".bias", ".scale", "_weight"});
}

inline GoldenModel golden_model(const Safetensors& golden) {
  const auto connection = connection_of_kind(golden.metadata().at("kind"));
  const auto theirs = nlohmann::json::parse(golden.metadata().at("config"));
  const int layers = theirs["n_layer"];
  std::vector<std::string> ours = {"positions",     "input.weight", "input.bias",
                                   "output.weight", "output.bias",  "final_norm.weight"};
  for (int i = 0; i < layers; ++i) {
    const auto block = "blocks." + std::to_string(i) + ".";
    for (const char* name : {"attention.qkv", "attention.out", "mlp.up", "mlp.down"})
      ours.push_back(block + name + ".weight");
    for (const char* half : {"attention_residual.", "mlp_residual."})
      for (const auto& name : parameters_of(connection)) ours.push_back(block + half + name);
  }
  SafetensorsWriter writer;
  for (const auto& name : ours) {
    std::string reference;
    try {
      reference = "param/" + reference_name(connection, name);
    } catch (const Error&) {
      continue;  // the connection has no such parameter
    }
    if (!golden.contains(reference)) continue;
    const auto& view = golden.at(reference);
    auto shape = view.shape;
    if (name == "positions") shape.erase(shape.begin());
    writer.add(name, view.dtype, shape, view.bytes);
  }
  return {writer.serialize(),
          {{"model", connection},
           {"layers", layers},
           {"width", theirs["n_embd"]},
           {"heads", theirs["n_head"]},
           {"streams", theirs["n_streams"]},
           {"pool", "sequence"},
           {"gate", theirs.value("gate", "plain")},
           {"hidden", theirs["geo_hidden_dim"]},
           {"sinkhorn_iterations", theirs["sinkhorn_iters"]},
           {"cayley_alpha", theirs["cayley_alpha"]},
           {"cayley_iterations", theirs["cayley_iters"]}}};
}

}  // namespace geores
