#include "geores/train/run/presets.h"

#include "geores/base/error.h"
#include "geores/base/nearest.h"

namespace geores {

const std::vector<Preset>& presets() {
  // EΔ as its published numbers were made: the gate with the entropy factor, H_pre and H_post from
  // N(0, 0.02), a neutral gate, the mean over the whole sequence.
  static const nlohmann::json edelta = {
      {"connection", "edelta"}, {"layers", 6},        {"gate", "entropy"}, {"init", "reference"},
      {"gate_bias", 0.0},       {"gate_weight", 0.1}, {"pool", "sequence"}};
  static const auto plain = [] {
    auto config = edelta;
    config["gate"] = "plain";
    return config;
  }();
  static const std::vector<Preset> all = {
      {"gpt", "GPT (additive)", {{"connection", "additive"}, {"layers", 9}}},
      {"ddl", "DDL (ddl_pooled)", {{"connection", "ddl_pooled"}, {"layers", 8}}},
      {"mhc", "mHC (mhc_split)", {{"connection", "mhc_split"}, {"layers", 9}}},
      {"jpmhc", "JPmHC (Cayley)", {{"connection", "jpmhc"}, {"layers", 7}, {"width", 512}}},
      {"edelta", "EΔ, entropy gate (as run)", edelta},
      {"edelta_plain", "EΔ, plain gate (as described)", plain}};
  return all;
}

const Preset& preset(const std::string& name, const std::string& where) {
  std::vector<std::string> known;
  for (const auto& preset : presets()) {
    if (preset.name == name) return preset;
    known.push_back(preset.name);
  }
  fail(where, "unknown preset '{}'{}", name, did_you_mean(name, known));
}

}  // namespace geores
