// Data sets and models that several experiments compare, as configurations of a run.
#pragma once

#include "geores/train/run/presets.h"
#include "lab/experiments/experiment.h"

namespace geores::arms {

using nlohmann::json;

inline const Column gyroscope{"gyroscope", "gyroscope", {{"task", "gyroscope"}}};
inline const Column stability{"stability", "stability", {{"task", "stability"}}};
inline const Column near_pi{"near_pi", "near π", {{"task", "near_pi"}}};
inline const Column near_pi_multi{
    "near_pi_multi", "near π, 32 planes", {{"task", "near_pi_multi"}}};

inline json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

inline json gpt() { return preset("gpt").config; }
inline json ddl() { return preset("ddl").config; }
inline json mhc() { return preset("mhc").config; }
inline json jpmhc() { return preset("jpmhc").config; }
inline json edelta(const json& changes = json::object()) {
  return with(preset("edelta").config, changes);
}

// The same, causal and without a gate loss.
inline json causal_edelta(const json& changes = json::object()) {
  return with(edelta({{"pool", "causal"}, {"gate_weight", 0.0}}), changes);
}

}  // namespace geores::arms
