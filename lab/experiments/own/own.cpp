// Questions beyond the EΔ paper: which part of it explains its results?
//
// Six blocks with linear maps around their sublayers have as many weights as eight without (6 · (12
// + 4) · 128² = 8 · 12 · 128²), so comparisons of maps use eight plain blocks.
#include <fmt/format.h>

#include <cmath>

#include "lab/experiments/arms.h"

namespace geores {
namespace {

using namespace arms;

// The factor by which a map with entries of standard deviation 0.02 scales the length of a vector
// of 128 values.
const double kShrink = 0.02 * std::sqrt(128.0);

const json kSmallMaps = {{"maps", "normal"}, {"layers", 6}};
const json kIdentityMaps = {{"maps", "identity"}, {"layers", 6}};

std::vector<Column> all_tasks() { return {gyroscope, stability, near_pi, near_pi_multi}; }

json small_gpt() { return with(gpt(), kSmallMaps); }
json causal_ddl() { return with(ddl(), {{"pool", "causal"}}); }
json hc() { return {{"connection", "hc"}, {"layers", 9}}; }
json rotation() { return causal_edelta({{"operator", "cayley"}}); }
json reflection() { return causal_edelta({{"operator", "householder"}}); }

// One factor changes at a time: the operator (none, or the gated one) and the initial values of
// H_pre and H_post. All arms are causal and have no gate loss.
Experiment start() {
  return {
      .name = "start",
      .title = "The cause of EΔ's results: the operator, or its two maps' initial values",
      .text =
          "H_pre and H_post are around every sublayer. Small: both from N(0, 0.02), as the "
          "public "
          "code ran. Identity: as the paper states. Without an operator the state is "
          "not rotated (operator = identity), and nothing geometric remains. Six blocks of width "
          "128 each; GPT has nine, to have as many parameters as EΔ.",
      .columns = all_tasks(),
      .arms = {
          {"gpt", "GPT (additive)", gpt()},
          {"none_small", "no operator, small start", causal_edelta({{"operator", "identity"}})},
          {"none_identity", "no operator, identity start",
           causal_edelta({{"operator", "identity"}, {"init", "identity"}})},
          {"hybrid_small", "EΔ's operator, small start", causal_edelta()},
          {"hybrid_identity", "EΔ's operator, identity start",
           causal_edelta({{"init", "identity"}})}}};
}

Experiment start_maps() {
  std::vector<Arm> arms;
  const auto row = [&](const std::string& name, const std::string& label, const json& plain,
                       const json& identity, const json& small) {
    if (!plain.is_null()) arms.push_back({name, label + ", no maps", plain, {}, label, "no maps"});
    arms.push_back(
        {name + "_identity", label + ", identity maps", identity, {}, label, "identity maps"});
    arms.push_back({name + "_small", label + ", small maps", small, {}, label, "small maps"});
  };
  const auto wrapped = [&](const std::string& name, const std::string& label, const json& plain) {
    row(name, label, plain, with(plain, kIdentityMaps), with(plain, kSmallMaps));
  };
  wrapped("gpt", "GPT (additive)", gpt());
  wrapped("ddl", "DDL (ddl_pooled)", causal_ddl());
  wrapped("mhc", "mHC (mhc_split)", mhc());
  wrapped("hc", "HC", hc());
  const json five = {
      {"layers", 5}};  // its routes read 512 values: six layers would have 1.90M weights
  row("jpmhc", "JPmHC (Cayley)", jpmhc(), with(jpmhc(), with(kIdentityMaps, five)),
      with(jpmhc(), with(kSmallMaps, five)));
  row("edelta", "EΔ", nullptr, causal_edelta({{"init", "identity"}}), causal_edelta());
  return {
      .name = "start_maps",
      .title = "The same two linear maps around every connection",
      .text =
          "Rows: the connection. Columns: no maps; H_pre and H_post that start as the identity; "
          "both from N(0, 0.02). With maps all have six blocks (JPmHC five), without as many as "
          "give the "
          "parameters of the paper's table. Causal, no gate loss.",
      .columns = all_tasks(),
      .arms = arms};
}

Experiment start_scale() {
  std::vector<Arm> arms;
  for (const auto* text : {"0.005", "0.01", "0.02", "0.04", "0.0884", "0.3", "1"}) {
    const auto scale = std::stod(text);
    const auto add = [&](const std::string& name, const std::string& label, const json& config) {
      arms.push_back({fmt::format("{}_{}", name, text),
                      fmt::format("{}, {}", label, text),
                      config,
                      {},
                      label,
                      text});
    };
    add("gpt", "no operator", with(small_gpt(), {{"maps_std", scale}}));
    add("edelta", "EΔ", causal_edelta({{"init_std", scale}}));
  }
  return {.name = "start_scale",
          .title = "The initial scale of the two maps",
          .text =
              "Standard deviation of the entries of H_pre and H_post at the start. At 0.0884 = "
              "1/√128 a map keeps the length of a vector. Six blocks of width 128.",
          .columns = all_tasks(),
          .arms = arms};
}

Experiment branches() {
  return {.name = "branches",
          .title = "Which branch of EΔ's operator helps, at equal initial values",
          .text =
              "Six blocks, maps from N(0, 0.02), causal, no gate loss. Hard gate: γ is 0 or 1, "
              "gradients pass straight through.",
          .columns = all_tasks(),
          .arms = {{"none", "no operator", small_gpt()},
                   {"rotation", "rotation only", rotation()},
                   {"reflection", "reflection only", reflection()},
                   {"hybrid", "both, soft gate", causal_edelta()},
                   {"anchored", "both, soft gate, anchored", causal_edelta({{"anchor", 1.0}})},
                   {"hard", "both, hard gate", causal_edelta({{"gate_value", "hard"}})}}};
}

Experiment schedule() {
  std::vector<Arm> arms;
  const auto add = [&](const std::string& name, const std::string& label, const json& config) {
    arms.push_back({name, label + ", end 1e-4", config, {}, label, "1e-4"});
    arms.push_back(
        {name + "_low", label + ", end 1e-6", with(config, {{"min_lr", 1e-6}}), {}, label, "1e-6"});
  };
  add("gpt", "GPT (additive)", gpt());
  add("jpmhc", "JPmHC (Cayley)", jpmhc());
  add("none", "no operator, small start", small_gpt());
  add("hybrid", "EΔ, small start", causal_edelta());
  add("rotation", "rotation only, small start", rotation());
  add("reflection", "reflection only, small start", reflection());
  return {.name = "schedule",
          .title = "The final learning rate",
          .text = "Columns: the learning rate after the cosine, from 1e-3.",
          .columns = all_tasks(),
          .arms = arms};
}

// Each arm differs from the first, or from the arm with small maps, in one thing.
Experiment explain() {
  const auto plain = [](const json& changes) {
    return with(gpt(), with({{"layers", 8}}, changes));
  };
  // Effective weights start at `start` times their usual size, and AdamW's steps on them are `gain`
  // times as long.
  const auto fixed = [&](double gain, double start) {
    return plain({{"maps", "fixed"},
                  {"maps_factor", gain},
                  {"first_start", start / gain},
                  {"last_start", start / gain}});
  };
  const auto small = [](const json& changes) { return with(small_gpt(), changes); };
  return {
      .name = "explain",
      .title = "Why a small start helps: one thing at a time",
      .text = fmt::format(
          "No operator anywhere. Maps from N(0, 0.02) shrink a vector to {:.3f} of its length. "
          "Plain blocks number eight, blocks with two maps six: as many weights. Steps: how far "
          "AdamW moves the weights of a sublayer, by a fixed factor around it. States that start "
          "{:.1f} "
          "times as large make the relative size of a branch as small as two maps do; all "
          "readers "
          "normalise the state, so the initial function is the same.",
          kShrink, 1 / (kShrink * kShrink)),
      .columns = {gyroscope, near_pi},
      .arms = {
          {"plain", "plain", plain(json::object())},
          {"small", "plain, weights start small",
           plain({{"first_start", kShrink}, {"last_start", kShrink}})},
          {"small_first", "plain, first weights start small", plain({{"first_start", kShrink}})},
          {"small_last", "plain, last weights start small", plain({{"last_start", kShrink}})},
          {"smaller_last", "plain, last weights start as small as both maps make them",
           plain({{"last_start", kShrink * kShrink}})},
          {"large_input", "plain, states start large",
           plain({{"input_start", 1 / (kShrink * kShrink)}})},
          {"slow", "plain, short steps", fixed(kShrink, 1)},
          {"fast", "plain, long steps", fixed(1 / kShrink, 1)},
          {"small_slow", "plain, small start, short steps", fixed(kShrink, kShrink)},
          {"small_fast", "plain, small start, long steps", fixed(1 / kShrink, kShrink)},
          {"low_rate", "plain, learning rate 3e-4", plain({{"lr", 3e-4}})},
          {"high_rate", "plain, learning rate 3e-3", plain({{"lr", 3e-3}})},
          {"maps_identity", "maps, identity", small({{"maps", "identity"}})},
          {"maps_kept", "maps, random, lengths kept", small({{"maps_std", 1 / std::sqrt(128.0)}})},
          {"maps_small", "maps, random, small", small(json::object())},
          {"maps_diagonal", "maps, small multiple of the identity",
           small({{"maps", "identity"}, {"maps_factor", kShrink}})},
          {"maps_before", "small map before alone", small({{"maps_side", "before"}})},
          {"maps_after", "small map after alone", small({{"maps_side", "after"}})},
          {"maps_narrow", "small maps, branch of width 64", small({{"branch_width", 64}})},
          {"maps_wide", "small maps, branch of width 256", small({{"branch_width", 256}})}}};
}

// Ours: orthogonal at all parameter values, with small maps around the sublayers.
json always_orthogonal(const char* factor, const json& changes = json::object()) {
  return with({{"connection", "isometry"}, {"operator", factor}}, with(kSmallMaps, changes));
}

const json kLowEnd = {{"min_lr", 1e-6}};
const json kFree = {{"min_lr", 1e-6}, {"lr", 3e-3}, {"weight_decay", 0.0}};
const json kMuon = {{"min_lr", 1e-6}, {"weight_decay", 0.0}, {"optimizer", "muon"}};
const json kMuonHigh = with(kMuon, {{"lr", 3e-3}});

// A share of earlier embeddings in the first state, from 0 (model/transformer/past.h).
const json kMean = {{"past", "mean"}};
const json kPrevious = {{"past", "previous"}};
const json kBoth = {{"past", "both"}};

// The input and output of vectors, and the MLPs of blocks.
const json kIsometry = {{"input_map", "isometry"}};
const json kSwiglu = {{"mlp", "swiglu"}};
const json kIsoSwiglu = with(kIsometry, kSwiglu);
const json kKept = {{"output_length", "input"}};
const json kNear = {{"output_length", "learned"}};

// Plain blocks with all results of the search except the small initial weights, which `changes` may
// add.
json winner(const json& changes) {
  return with(gpt(), with(with(with(with(kNear, kBoth), with(kSwiglu, {{"early_weight", 0.5}})),
                               {{"layers", 8}, {"heads", 16}}),
                          changes));
}

constexpr auto kFreeWay = "3e-3 to 1e-6, no decay";

Experiment orthogonal() {
  return {.name = "orthogonal",
          .title = "Operators that are orthogonal at all parameter values",
          .text =
              "Six blocks, maps from N(0, 0.02), causal pool, learning rate 1e-3 to 1e-6. GPT, "
              "DDL (causal), mHC and JPmHC as in the paper's table, with the same schedule.",
          .columns = all_tasks(),
          .arms = {{"none", "no operator", with(small_gpt(), kLowEnd)},
                   {"reflections", "two reflections", always_orthogonal("reflections", kLowEnd)},
                   {"unitary", "complex reflection", always_orthogonal("unitary", kLowEnd)},
                   {"cayley", "Cayley, all planes", always_orthogonal("cayley", kLowEnd)},
                   {"reflections_free", "two reflections, no anchor",
                    always_orthogonal("reflections", with(kLowEnd, {{"anchor", 0.0}}))},
                   {"unitary_two", "two complex reflections",
                    always_orthogonal("unitary", with(kLowEnd, {{"factors", 2}}))},
                   {"unitary_token", "complex reflection, pool = token",
                    always_orthogonal("unitary", with(kLowEnd, {{"pool", "token"}}))},
                   {"unitary_linear", "complex reflection, linear generators",
                    always_orthogonal("unitary", with(kLowEnd, {{"generator", "linear"}}))},
                   {"unitary_both", "complex reflection, perceptron and linear generators",
                    always_orthogonal("unitary", with(kLowEnd, {{"generator", "both"}}))},
                   {"near", "no operator, running mean, lengths near, 3e-3 to 1e-6, no decay",
                    with(kFree, with(small_gpt(), with(kMean, kNear)))},
                   {"winner", "what won the search, 3e-3 to 1e-6, no decay",
                    with(kFree, winner({{"maps", "fixed"}, {"maps_factor", 0.3}}))},
                   {"rotation", "EΔ, rotation only", with(rotation(), kLowEnd)},
                   {"reflection", "EΔ, reflection only", with(reflection(), kLowEnd)},
                   {"hybrid", "EΔ, both", with(causal_edelta(), kLowEnd)},
                   {"gpt", "GPT (additive)", with(gpt(), kLowEnd)},
                   {"ddl", "DDL (ddl_pooled)", with(causal_ddl(), kLowEnd)},
                   {"mhc", "mHC (mhc_split)", with(mhc(), kLowEnd)},
                   {"jpmhc", "JPmHC (Cayley)", with(jpmhc(), kLowEnd)}}};
}

// One configuration for all tasks: selected in `search`, and judged in `held_out`.
std::vector<Arm> candidates() {
  std::vector<Arm> arms;
  const auto add = [&](const std::string& name, const std::string& label, const json& model) {
    arms.push_back({name, label, with(kFree, model)});
  };
  add("gpt_mean", "GPT, running mean", with(gpt(), kMean));
  add("none_mean", "no operator, running mean", with(small_gpt(), kMean));
  add("unitary_mean", "complex reflection, running mean", always_orthogonal("unitary", kMean));
  add("gpt_both", "GPT, running mean and previous", with(gpt(), kBoth));
  add("none_both", "no operator, running mean and previous", with(small_gpt(), kBoth));
  add("unitary_both", "complex reflection, running mean and previous",
      always_orthogonal("unitary", kBoth));
  add("none_previous", "no operator, previous", with(small_gpt(), kPrevious));
  add("none_both_slow", "no operator, running mean and previous, gain 10",
      with(small_gpt(), with(kBoth, {{"past_gain", 10}})));
  add("none_both_epsilon", "no operator, running mean and previous, AdamW's epsilon 1e-12",
      with(small_gpt(), with(kBoth, {{"epsilon", 1e-12}})));
  const auto mean = [&](const std::string& name, const std::string& label, const json& changes) {
    add(name, "no operator, running mean, " + label, with(small_gpt(), with(kMean, changes)));
  };
  mean("none_iso", "isometry", kIsometry);
  mean("none_iso_swiglu", "isometry, SwiGLU", kIsoSwiglu);
  mean("none_iso_swiglu_heads", "isometry, SwiGLU, 8 heads", with(kIsoSwiglu, {{"heads", 8}}));
  mean("none_iso_swiglu_slow", "isometry, SwiGLU, previous, gain 10",
       with(kIsoSwiglu, with(kBoth, {{"past_gain", 10}})));
  mean("none_kept", "lengths kept", kKept);
  mean("none_kept_both", "lengths kept, previous", with(kKept, kBoth));
  mean("none_near", "lengths near", kNear);
  mean("none_near_both", "lengths near, previous", with(kNear, kBoth));
  mean("none_near_iso", "lengths near, isometry", with(kNear, kIsometry));
  const auto both = [&](const std::string& name, const std::string& label, const json& changes) {
    add("none_near_both_" + name, "no operator, running mean, lengths near, previous, " + label,
        with(small_gpt(), with(with(kNear, kBoth), changes)));
  };
  mean("none_near_early", "lengths near, early positions weighted",
       with(kNear, {{"early_weight", 0.5}}));
  mean("none_near_first", "lengths near, first positions weighted",
       with(kNear, {{"early_weight", 1.0}}));
  both("early", "early positions weighted", {{"early_weight", 0.5}});
  both("first", "first positions weighted", {{"early_weight", 1.0}});
  both("rotary", "rotary positions", {{"positions", "rotary"}});
  both("fast", "from 5e-3", {{"lr", 5e-3}});
  both("swiglu", "SwiGLU", kSwiglu);
  both("swiglu_early", "SwiGLU, early positions weighted", with(kSwiglu, {{"early_weight", 0.5}}));
  both("swiglu_little", "SwiGLU, early positions weighted a little",
       with(kSwiglu, {{"early_weight", 0.25}}));
  both("swiglu_passing", "SwiGLU, early positions weighted at first",
       with(kSwiglu, {{"early_weight", 1.0}, {"early_steps", 1500}}));
  const auto early = [&](const std::string& name, const std::string& label, const json& changes) {
    both("swiglu_early_" + name, "SwiGLU, early positions weighted, " + label,
         with(with(kSwiglu, {{"early_weight", 0.5}}), changes));
  };
  early("heads", "8 heads", {{"heads", 8}});
  early("heads16", "16 heads", {{"heads", 16}});
  early("slow", "from 2e-3", {{"lr", 2e-3}});
  early("gain", "gain 10", {{"past_gain", 10}});
  early("beta", "AdamW's β₂ 0.99", {{"beta2", 0.99}});
  both("heads", "8 heads", {{"heads", 8}});
  both("scale", "maps from N(0, 0.04)", {{"maps_std", 0.04}});
  both("after", "one map, after the sublayer", {{"maps_side", "after"}, {"layers", 7}});
  both("muon", "Muon from 1e-2", {{"optimizer", "muon"}, {"lr", 1e-2}});
  add("plain_near_both",
      "no operator, no maps, states start large, running mean, lengths near, previous",
      with(gpt(),
           with(with(kNear, kBoth), {{"layers", 8}, {"input_start", 1 / (kShrink * kShrink)}})));
  const auto fixed = [&](const std::string& name, const std::string& label, const json& changes) {
    add("fixed_near_both_swiglu_early" + name,
        "no operator, no maps, small start and short steps, running mean, lengths near, previous, "
        "SwiGLU, early positions weighted" +
            label,
        winner(with({{"maps", "fixed"}, {"maps_factor", kShrink}}, changes)));
  };
  fixed("", "", {{"heads", 4}});
  fixed("_heads", ", 8 heads", {{"heads", 8}});
  fixed("_heads16", ", 16 heads", {{"heads", 16}});
  for (const auto* factor : {"0.3", "0.4"})
    for (const int64_t heads : {8, 16})
      fixed(fmt::format("_heads{}_{}", heads, factor),
            fmt::format(", {} heads, factors {}", heads, factor),
            {{"heads", heads}, {"maps_factor", std::stod(factor)}});
  add("plain_near_both_swiglu_early_heads16",
      "no operator, no maps, usual start, running mean, lengths near, previous, SwiGLU, early "
      "positions weighted, 16 heads",
      winner(json::object()));
  add("reflection_near_both", "EΔ, reflection only, running mean, lengths near, previous",
      with(reflection(), with(kNear, kBoth)));
  add("unitary_near", "complex reflection, running mean, lengths near",
      always_orthogonal("unitary", with(kMean, kNear)));
  add("unitary_near_both", "complex reflection, running mean, lengths near, previous",
      always_orthogonal("unitary", with(kBoth, kNear)));
  add("unitary_near_both_swiglu_early",
      "complex reflection, running mean, lengths near, previous, SwiGLU, early positions weighted",
      always_orthogonal("unitary",
                        with(with(kBoth, kNear), with(kSwiglu, {{"early_weight", 0.5}}))));
  add("gpt_near_both_swiglu_early",
      "GPT, running mean, lengths near, previous, SwiGLU, early positions weighted",
      with(gpt(), with(with(kBoth, kNear), with(kSwiglu, {{"early_weight", 0.5}}))));
  add("gpt_near", "GPT, running mean, lengths near", with(gpt(), with(kMean, kNear)));
  add("gpt_near_early", "GPT, running mean, lengths near, early positions weighted",
      with(gpt(), with(kMean, with(kNear, {{"early_weight", 0.5}}))));
  add("gpt_near_both", "GPT, running mean, lengths near, previous",
      with(gpt(), with(kBoth, kNear)));
  return arms;
}

// Selections are made here, on the paper's data; `held_out` judges them.
Experiment search() {
  std::vector<Arm> arms;
  const auto row = [&](const std::string& name, const std::string& label, const json& model) {
    const auto add = [&](const char* suffix, const char* way, const json& changes) {
      arms.push_back({name + suffix, label + ", " + way, with(model, changes), {}, label, way});
    };
    add("", "1e-3 to 1e-6", kLowEnd);
    add("_high", "3e-3 to 1e-6", with(kLowEnd, {{"lr", 3e-3}}));
    add("_free", "3e-3 to 1e-6, no decay", kFree);
    add("_muon", "Muon, 1e-3 to 1e-6, no decay", kMuon);
    add("_muon_high", "Muon, 3e-3 to 1e-6, no decay", kMuonHigh);
  };
  row("gpt", "GPT (additive)", gpt());
  row("none", "no operator, small maps", small_gpt());
  row("reflection", "EΔ, reflection only", reflection());
  row("reflections", "two reflections", always_orthogonal("reflections"));
  row("unitary", "complex reflection", always_orthogonal("unitary"));
  row("streams", "complex reflection, 2 streams", always_orthogonal("unitary", {{"streams", 2}}));
  row("wide", "complex reflection, wide generators",
      always_orthogonal("unitary", {{"hidden_ratio", 1}}));
  for (const auto& arm : candidates())
    arms.push_back({arm.name, arm.label + ", " + kFreeWay, arm.config, {}, arm.label, kFreeWay});
  return {
      .name = "search",
      .title = "Search for one configuration for all tasks",
      .text =
          "At most 1.79M parameters, but for GPT (1.81M) and wide generators (1.82M); causal, 2000 "
          "steps of batch 64. Columns: "
          "learning rate, weight decay, and the optimiser where it is not AdamW. Running mean, "
          "previous: the first state has a learned share of the mean of the embeddings so far, of "
          "the one before. Isometry: vectors enter by a fixed map that keeps lengths and angles. "
          "Lengths kept: predictions are as long as the vector before; near: of each position a "
          "learned share of that.",
      .columns = all_tasks(),
      .arms = arms};
}

// Data that no selection was made on.
Experiment held_out() {
  auto columns = all_tasks();
  for (auto& column : columns) {
    column.name += "_held_out";
    column.label += ", held out";
    column.config["data_seed"] = 2027;
  }
  std::vector<Arm> arms = {
      {"gpt", "GPT (additive)", gpt()},
      {"gpt_low", "GPT, end 1e-6", with(gpt(), kLowEnd)},
      {"jpmhc", "JPmHC (Cayley)", jpmhc()},
      {"edelta", "EΔ's operator, small start", causal_edelta()},
      {"none", "no operator, small start", small_gpt()},
      {"none_low", "no operator, small start, end 1e-6", with(small_gpt(), kLowEnd)},
      {"reflection_low", "EΔ, reflection only, end 1e-6", with(reflection(), kLowEnd)},
      {"reflections_low", "two reflections, end 1e-6", always_orthogonal("reflections", kLowEnd)},
      {"unitary_low", "complex reflection, end 1e-6", always_orthogonal("unitary", kLowEnd)},
      {"gpt_free", "GPT, 3e-3 to 1e-6, no decay", with(gpt(), kFree)},
      {"none_free", "no operator, small start, 3e-3 to 1e-6, no decay", with(small_gpt(), kFree)},
      {"unitary_free", "complex reflection, 3e-3 to 1e-6, no decay",
       always_orthogonal("unitary", kFree)},
      {"gpt_muon", "GPT, Muon", with(gpt(), kMuon)},
      {"none_muon", "no operator, small start, Muon", with(small_gpt(), kMuon)},
      {"unitary_muon", "complex reflection, Muon", always_orthogonal("unitary", kMuon)},
      {"gpt_muon_high", "GPT, Muon, 3e-3", with(gpt(), kMuonHigh)},
      {"none_muon_high", "no operator, small start, Muon, 3e-3", with(small_gpt(), kMuonHigh)},
      {"unitary_muon_high", "complex reflection, Muon, 3e-3",
       always_orthogonal("unitary", kMuonHigh)}};
  for (const auto& arm : candidates())
    arms.push_back({arm.name, arm.label + ", " + kFreeWay, arm.config});
  return {
      .name = "held_out",
      .title = "Data of another seed, on which nothing was selected",
      .text =
          "The data are drawn with data_seed = 2027, and no setting was selected on them. Models "
          "are "
          "trained with AdamW, a learning rate that falls from 1e-3 to 1e-4, and a weight decay of "
          "0.1, unless their label names something else: another end of the learning rate (end "
          "1e-6), another range (3e-3 to 1e-6), no weight decay, or Muon instead of AdamW. "
          "With Muon the learning rate falls to 1e-6, from 1e-3 or, where named, 3e-3, and there "
          "is no weight decay.",
      .columns = columns,
      .arms = arms};
}

}  // namespace

const std::vector<Experiment>& own_experiments() {
  static const std::vector<Experiment> all = {start(),      start_maps(), start_scale(),
                                              branches(),   schedule(),   explain(),
                                              orthogonal(), search(),     held_out()};
  return all;
}

}  // namespace geores
