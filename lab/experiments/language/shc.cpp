// sHC's comparison of hyper-connections, with the control that shows the mixer's effect: a fixed
// identity.
#include <fmt/format.h>

#include "lab/experiments/language/papers.h"

namespace geores {
namespace {

using nlohmann::json;
using namespace arms;

struct ShcSizes {
  std::string data;
  int64_t layers, width, heads, context, batch, steps, warmup, eval_batches;
  int64_t validation_ids;  // of the exact losses; 0: all
  std::vector<double> rates;
  std::vector<int64_t> streams, many_streams;  // mHC-lite has n! permutations: not many
  int64_t stream_steps;                        // of the table over n
};

ShcSizes shc_sizes(const std::string& scale) {
  if (scale == "quick")
    return {.data = "shakespeare_char",
            .layers = 4,
            .width = 96,
            .heads = 4,
            .context = 64,
            .batch = 16,
            .steps = 40,
            .warmup = 4,
            .eval_batches = 2,
            .validation_ids = 8192,
            .rates = {6e-4, 2e-3},
            .streams = {2, 3},
            .many_streams = {},
            .stream_steps = 20};
  if (scale == "cpu")
    return {.data = "shakespeare_char",
            .layers = 12,
            .width = 96,
            .heads = 4,
            .context = 64,
            .batch = 8,
            .steps = 600,
            .warmup = 60,
            .eval_batches = 16,
            .validation_ids = 32768,
            .rates = {6e-4, 2e-3},
            .streams = {2, 3, 4, 5},
            .many_streams = {},
            .stream_steps = 20};
  return {.data = "books",  // shape S: 65,536 tokens a step
          .layers = 12,
          .width = 384,
          .heads = 6,
          .context = 512,
          .batch = 128,
          .steps = 2000,
          .warmup = 200,
          .eval_batches = 4,
          .validation_ids = 0,
          .rates = {3e-4, 6e-4, 1e-3, 2e-3},
          .streams = {2, 3, 4, 5, 6},
          .many_streams = {7, 8},
          .stream_steps = 20};
}

json shc_training(const ShcSizes& sizes, int64_t steps) {
  return {{"layers", sizes.layers},
          {"width", sizes.width},
          {"heads", sizes.heads},
          {"streams", 4},
          {"batch", sizes.batch},
          {"steps", steps},
          {"warmup", std::min(sizes.warmup, steps / 10)},
          {"lr", 6e-4},
          {"min_lr", 6e-5},
          {"weight_decay", 0.1},
          {"clip", 1.0},
          {"log_interval", 1},
          {"eval_interval", std::max<int64_t>(1, steps / 10)},
          {"eval_batches", sizes.eval_batches},
          {"final_eval_batches", sizes.eval_batches},
          {"checkpoint_interval", std::max<int64_t>(1, steps / 4)}};
}

const json kAdditive = {{"connection", "additive"}};
const json kHc = {{"connection", "hc"}};
const json kStaticHc = with(kHc, {{"dynamic", false}});
// The published form: rows last, no bound, the gradient of the iterations.
const json kMhc = {{"connection", "mhc"}, {"sinkhorn_gradient", "unrolled"}};
const json kLite = {{"connection", "mhc_lite"}};
const json kShc = {{"connection", "shc"}};
// mHC without its mixer.
const json kIdentity = with(kMhc, {{"mixer", "identity"}});

// Connections on one stream of the whole width. Small maps: they explain EΔ's results on vectors
// without any operator (docs/notebook/what_helps.md).
Experiment geometry_experiment(const json& common, const std::vector<double>& rates,
                               const Column& column) {
  const auto arm = [&](const char* name, const char* label, json connection) {
    connection.erase("layers");
    return Arm{name, label, with(common, connection)};
  };
  const json small_maps = {{"maps", "normal"}};
  // Two maps around each sublayer are 4 d² more in a block of 12 d².
  const auto heads = common.at("heads").get<int64_t>();
  const auto wide = common.at("width").get<int64_t>() * 9 / 8 / heads * heads;
  return {
      .name = "geometry",
      .title = "Connections made for vectors, on text",
      .text =
          "The plain residual, EΔ's operator with its two maps, its rotation alone (its reflection "
          "makes gradients explode at this depth), all of it with a reflection whose direction "
          "starts away from 0 (anchored), the same maps without an operator, and "
          "with the complex reflection, which is orthogonal at all parameter values "
          "(docs/notebook/own.md). All causal, without a gate loss. The maps cost a third of a "
          "block's "
          "parameters more; the wider plain residual has about as many.",
      .columns = {column},
      .arms = {arm("additive", "additive", kAdditive),
               arm("wide", "additive, wider", with(kAdditive, {{"width", wide}})),
               arm("edelta", "EΔ", causal_edelta()),
               arm("rotation", "EΔ, rotation only", causal_edelta({{"operator", "cayley"}})),
               arm("anchored", "EΔ, anchored", causal_edelta({{"anchor", 1.0}})),
               arm("small_maps", "no operator, small maps", with(kAdditive, small_maps)),
               arm("unitary", "complex reflection, small maps",
                   with({{"connection", "isometry"}, {"operator", "unitary"}}, small_maps))},
      .rates = rates,
      .measures = {"gradients"}};
}

// JPmHC's mixers, reflections and quaternions with the routes of mHC.
json full_width(const char* mixer, const json& options = json::object()) {
  return with({{"connection", "jpmhc"}, {"layout", "expand"}, {"mixer", mixer}}, options);
}

// The question that JPmHC, sHC, EΔ and mHC-lite leave to each other: which set of matrices for H_res? All
// arms have the same routes, norms and starts of read and write.
Experiment manifolds_experiment(const json& common, const std::vector<double>& rates,
                                const Column& column) {
  const auto arm = [&](const char* name, const char* label, const json& connection) {
    return Arm{name, label, with(common, connection)};
  };
  // JPmHC's α = 0.1 lets a mixer turn a tenth as fast.
  const json fast = {{"cayley_alpha", 1.0}};
  return {
      .name = "manifolds",
      .title = "Which set of matrices for H_res?",
      .text =
          "Four streams of the full width with the routes of mHC; the arms differ in H_res "
          "alone: none (I), any matrix, doubly stochastic by Sinkhorn's iteration or by "
          "permutations, the spectral sphere, orthogonal in five ways, projectors. RC and HC "
          "as published are in the same table.",
      .columns = {column},
      .arms =
          {arm("identity", "I (mHC without its mixer)", kIdentity),
           arm("cayley_exact", "orthogonal: exact Cayley, α = 1", full_width("cayley_exact", fast)),
           arm("mhc", "doubly stochastic: mHC", kMhc), arm("shc", "spectral sphere: sHC", kShc),
           arm("quaternions", "orthogonal: two quaternions", full_width("quaternions")),
           arm("free", "any matrix (HC with mHC's routes)", with(kHc, {{"form", "sigmoid"}})),
           arm("mhc_lite", "doubly stochastic: all permutations (mHC-lite)", kLite),
           arm("reflections", "orthogonal: four reflections", full_width("reflections")),
           arm("cayley", "nearly orthogonal: iterated Cayley, α = 1", full_width("cayley", fast)),
           arm("cayley_slow", "nearly orthogonal: JPmHC's Cayley, α = 0.1", full_width("cayley")),
           arm("permutation", "doubly stochastic: six permutations", full_width("permutation")),
           arm("grassmann", "projectors: Grassmann", full_width("grassmann")), arm("hc", "HC", kHc),
           arm("additive", "additive (RC)", kAdditive)},
      .rates = rates,
      .measures = {"mixers", "use", "gradients"}};
}

std::vector<Arm> shc_arms(const json& common) {
  const auto arm = [&](const char* name, const char* label, const json& connection) {
    return Arm{name, label, with(common, connection)};
  };
  return {arm("additive", "additive (RC)", kAdditive),
          arm("hc", "HC", kHc),
          arm("mhc", "mHC", kMhc),
          arm("mhc_lite", "mHC-lite", kLite),
          arm("shc", "sHC", kShc),
          arm("identity", "fixed identity (mHC without its mixer)", kIdentity)};
}

// Both tables in a small model. At scale cpu 2,000 steps are one epoch of tinyshakespeare, so an
// effect of longer training could be due to repetition; the books, by bytes, last for 180,000
// steps. Other texts have bytes too.
Experiment read_once_experiment(const json& training, const std::string& data, int64_t context) {
  // One epoch cannot overfit, so the last weights are the best; a choice by evaluations on few
  // windows would be random. The training losses show the learning curve, because their batches
  // never repeat.
  const auto common = with(training, {{"eval_interval", training.at("steps")}});
  const std::string name = "books_bytes";
  auto text = text_task(data, name, context, 131072);
  text["sampling"] = "epochs";  // no window is drawn twice
  Experiment experiment{
      .name = "read_once",
      .title = "Tables 1 and 2 in a small model: one epoch of books by bytes",
      .text =
          "The six arms trained for one epoch, with two cheaper kinds of HC and a plain residual "
          "with smaller deep branches.",
      .columns = {{name, "books, by bytes", text}},
      .arms = shc_arms(common),
      .rates = {1e-3, 2e-3, 4e-3},
      .measures = {"mixers", "use", "other_texts", "gradients"}};
  experiment.arms.insert(
      experiment.arms.end(),
      {{"root", "additive, branches / √l", with(common, with(kAdditive, {{"branch_power", 0.5}}))},
       {"hc_one", "HC, one stream", with(with(common, kHc), {{"streams", 1}})},
       {"hc_static", "HC, static routes", with(common, kStaticHc)}});
  return experiment;
}

// The order that sHC prints, and the same against a fixed identity. `where` is appended to each
// claim's text.
std::vector<Claim> order_claims(const std::string& experiment, const std::string& column,
                                const std::string& where) {
  const auto claim = [&](const std::string& text, const char* better, const char* worse) {
    return Claim{text + where, experiment, column, better, worse};
  };
  return {claim("HC beats the plain residual", "hc", "additive"),
          claim("mHC beats the plain residual", "mhc", "additive"),
          claim("mHC-lite beats the plain residual", "mhc_lite", "additive"),
          claim("sHC beats the plain residual", "shc", "additive"),
          claim("sHC beats mHC", "shc", "mhc"),
          claim("sHC beats mHC-lite", "shc", "mhc_lite"),
          claim("sHC beats a fixed identity", "shc", "identity"),
          claim("mHC beats a fixed identity", "mhc", "identity")};
}

}  // namespace

LanguagePaper shc_paper(const std::string& scale, const std::string& data) {
  const auto sizes = shc_sizes(scale);
  const auto text = text_task(data, sizes.data, sizes.context, sizes.validation_ids);
  const auto common = shc_training(sizes, sizes.steps);
  const Column column{sizes.data, sizes.data, text};

  Experiment main{
      .name = "mixers",
      .title = "Tables 1 and 2: hyper-connections as language models",
      .text =
          "sHC orders them sHC < mHC-lite, mHC < RC by loss. The fixed identity (four streams with "
          "H_res = I) has no mixer, so its gain over RC is not due to one.",
      .columns = {column},
      .arms = shc_arms(common),
      .rates = sizes.rates,
      .measures = {"mixers", "use", "other_texts", "sample", "gradients"}};

  auto common_rate = main;
  common_rate.name = "mixers_6e-4";
  common_rate.title = "The same at one learning rate for all arms";
  common_rate.text =
      "6e-4, as in sHC's paper: the result also depends on how well one rate fits each arm.";
  common_rate.rates.clear();
  common_rate.measures.clear();

  Experiment controls{
      .name = "controls",
      .title = "Does mHC learn its identity, or does its initialisation keep it?",
      .text =
          "mHC starts with row maxima of 0.999, and in the public code weight decay moves its "
          "static "
          "map towards equal weights. Three controls: with that decay, from −2 instead of −8 "
          "off "
          "the diagonal, and with the gradient of Sinkhorn's limit.",
      .columns = {column},
      .arms = {{"mhc", "mHC", with(common, kMhc)},
               {"decay", "mHC, static map decays",
                with(common, with(kMhc, {{"decay_static", true}}))},
               {"start", "mHC from −2 off the diagonal",
                with(common, with(kMhc, {{"off_diagonal", -2.0}}))},
               {"implicit", "mHC, implicit gradient",
                with(common, with(kMhc, {{"sinkhorn_gradient", "implicit"}}))}},
      .measures = {"mixers", "use"}};

  // HC's streams start equal and stayed so on books (cosine 0.999). Its gain may be due to the
  // factors on the carried state, which a single stream can have, too.
  const json one = {{"streams", 1}};
  Experiment one_stream{
      .name = "one_stream",
      .title = "Several streams, or factors on one?",
      .text =
          "Published HC and a fixed identity with a single stream keep only learned factors on the "
          "carried, read and written values. The plain residual with branches divided by their "
          "depth or its root is another control: HC's carried state grows with depth, which gives "
          "its deep branches less weight.",
      .columns = {column},
      .arms = {{"additive", "additive (RC)", with(common, kAdditive)},
               {"root", "additive, branches / √l",
                with(common, with(kAdditive, {{"branch_power", 0.5}}))},
               {"inverse", "additive, branches / l",
                with(common, with(kAdditive, {{"branch_power", 1.0}}))},
               {"hc", "HC", with(common, kHc)},
               {"hc_one", "HC, one stream", with(with(common, kHc), one)},
               {"hc_static", "HC, static routes", with(common, kStaticHc)},
               {"hc_one_static", "HC, one stream, static routes",
                with(with(common, kStaticHc), one)},
               {"identity", "fixed identity", with(common, kIdentity)},
               {"identity_one", "fixed identity, one stream", with(with(common, kIdentity), one)}},
      .rates = sizes.rates,
      .measures = {"other_texts", "gradients"}};
  for (const auto* name : {"additive", "root", "hc", "identity"})
    one_stream.arms.push_back(with_long_warmup(one_stream.arm(name), 2));

  Experiment streams{.name = "streams",
                     .title = "Parameters and speed against the number of streams",
                     .text =
                         "A few steps each, for parameters and seconds only. A comparison of speed "
                         "between a fused "
                         "and a composed connection says nothing about the connection.",
                     .columns = {},
                     .arms = {},
                     .for_speed = true};
  // An evaluation would take longer than the steps.
  const auto short_training = with(shc_training(sizes, sizes.stream_steps),
                                   {{"eval_interval", sizes.stream_steps}, {"eval_batches", 1}});
  const auto short_text = text_task(data, sizes.data, sizes.context, 8192);
  for (const auto& arm : shc_arms(short_training))
    if (arm.name != "identity") streams.arms.push_back(arm);
  auto many = streams;
  many.name = "many_streams";
  many.title += ", more than six";
  std::erase_if(many.arms, [](const Arm& arm) { return arm.name == "mhc_lite"; });
  const auto column_of = [&](int64_t n) {
    return Column{fmt::format("n{}", n), fmt::format("n = {}", n),
                  with(short_text, {{"streams", n}})};
  };
  for (const auto n : sizes.streams) streams.columns.push_back(column_of(n));
  for (const auto n : sizes.many_streams) many.columns.push_back(column_of(n));

  std::vector<Experiment> experiments = {
      main,       common_rate,
      controls,   manifolds_experiment(common, sizes.rates, column),
      one_stream, geometry_experiment(common, sizes.rates, column),
      streams};
  if (!many.columns.empty()) experiments.push_back(many);
  if (scale == "cpu") experiments.push_back(read_once_experiment(common, data, sizes.context));

  auto claims = order_claims(main.name, sizes.data, "");
  claims.insert(
      claims.end(),
      {{"the plain residual with branches / √l beats the plain residual", "one_stream", sizes.data,
        "root", "additive"},
       {"HC beats the plain residual with branches / √l", "one_stream", sizes.data, "hc", "root"},
       {"a fixed identity beats the plain residual with branches / √l", "one_stream", sizes.data,
        "identity", "root"},
       {"HC beats HC with one stream", "one_stream", sizes.data, "hc", "hc_one"},
       {"HC beats the plain residual, both with twice the warm-up", "one_stream", sizes.data,
        "hc_warm", "additive_warm"},
       {"the plain residual with branches / √l beats it without, both with twice the warm-up",
        "one_stream", sizes.data, "root_warm", "additive_warm"}});
  const auto of_manifolds = [&](const char* claimed, const char* better, const char* worse) {
    claims.push_back({claimed, "manifolds", sizes.data, better, worse});
  };
  of_manifolds("an exactly orthogonal mixer beats none", "cayley_exact", "identity");
  of_manifolds("a mixer of two quaternions beats none", "quaternions", "identity");
  of_manifolds("an exactly orthogonal mixer beats a doubly stochastic one", "cayley_exact", "mhc");
  of_manifolds("an exactly orthogonal mixer beats one on the spectral sphere", "cayley_exact",
               "shc");
  of_manifolds("a free mixer beats an exactly orthogonal one", "free", "cayley_exact");
  of_manifolds("an exact Cayley map beats an iterated one", "cayley_exact", "cayley");
  if (scale == "cpu")
    for (auto& claim : order_claims("read_once", "books_bytes", ", one epoch of books"))
      claims.push_back(std::move(claim));
  return {
      .name = "shc",
      .title = "sHC's comparison of hyper-connections, with controls",
      .text =
          "sHC (arXiv:2603.20896) compares at 0.12B and 0.36B parameters on web text; the bodies "
          "of its tables are not available, so only their order can be compared. Scale gpu: "
          "public domain books, 12 layers of width 384, context 512, 65,536 tokens a step. Scale "
          "quick: tinyshakespeare by characters, 4 layers of width 96, context 64, 40 steps of "
          "1,024 tokens, one seed, losses on 8,192 characters. Scale cpu: the same text, 12 layers "
          "of width 96, context 64, 600 steps of 512 tokens, losses on 32,768 characters; "
          "read_once has books by bytes, losses on 131,072 bytes.",
      .experiments = experiments,
      .claims = claims};
}

}  // namespace geores
