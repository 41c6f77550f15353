// Data sets and models that several experiments compare, as configurations of a run.
#pragma once

#include "geores/experiments/experiment.h"

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

inline json gpt() { return {{"connection", "additive"}, {"layers", 9}}; }
inline json ddl() { return {{"connection", "ddl_pooled"}, {"layers", 8}}; }
inline json mhc() { return {{"connection", "mhc_split"}, {"layers", 9}}; }
inline json jpmhc() { return {{"connection", "jpmhc"}, {"layers", 7}, {"width", 512}}; }

// EΔ as its published numbers were made: the gate with the entropy factor, H_pre and H_post from
// N(0, 0.02), a neutral gate, the mean over the whole sequence.
inline json edelta(const json& changes = json::object()) {
  return with({{"connection", "edelta"},
               {"layers", 6},
               {"gate", "entropy"},
               {"init", "reference"},
               {"gate_bias", 0.0},
               {"gate_weight", 0.1},
               {"pool", "sequence"}},
              changes);
}

// The same without sight of the future and without a gate loss.
inline json causal_edelta(const json& changes = json::object()) {
  return with(edelta({{"pool", "causal"}, {"gate_weight", 0.0}}), changes);
}

}  // namespace geores::arms
