// MGT's five experiments. Common: AdamW, warm-up 5 %, cosine to a tenth, clip 1, decay 0.1.
#include <fmt/format.h>

#include "lab/experiments/language/papers.h"

namespace geores {
namespace {

using nlohmann::json;
using namespace arms;

struct MgtSizes {
  std::string data;  // of experiments 1 to 4
  std::string books;
  int64_t width, context, batch, steps, heads, eval_batches;
  int64_t validation_ids;  // of the exact losses; 0: all
  std::vector<int64_t> depths;
  int64_t ablation_depth, beta_depth;
  std::vector<double> rates;
  // Experiment 5.
  int64_t language_width, language_depth, language_steps;
};

MgtSizes mgt_sizes(const std::string& scale) {
  if (scale == "quick")
    return {.data = "shakespeare_char",
            .books = "shakespeare_char",
            .width = 64,
            .context = 64,
            .batch = 16,
            .steps = 40,
            .heads = 4,
            .eval_batches = 2,
            .validation_ids = 8192,
            .depths = {2, 4, 8},
            .ablation_depth = 8,
            .beta_depth = 8,
            .rates = {1e-3, 3e-3},
            .language_width = 64,
            .language_depth = 4,
            .language_steps = 40};
  if (scale == "cpu")
    return {.data = "shakespeare_char",
            .books = "shakespeare_char",
            .width = 64,
            .context = 64,
            .batch = 8,
            .steps = 600,
            .heads = 4,
            .eval_batches = 32,
            .validation_ids = 32768,
            .depths = {12, 48, 100},
            .ablation_depth = 48,
            .beta_depth = 100,
            .rates = {1e-3, 3e-3},
            .language_width = 128,
            .language_depth = 8,
            .language_steps = 1500};
  return {.data = "wiki2",
          .books = "books",
          .width = 256,
          .context = 256,
          .batch = 64,
          .steps = 1220,  // 20M tokens, seven epochs
          .heads = 8,
          .eval_batches = 8,
          .validation_ids = 0,
          .depths = {12, 24, 48, 100, 200},
          .ablation_depth = 48,
          .beta_depth = 100,
          .rates = {1e-4, 3e-4, 1e-3, 3e-3},
          .language_width = 512,
          .language_depth = 24,
          .language_steps = 3967};  // 65M tokens
}

json mgt_training(const MgtSizes& sizes, int64_t steps) {
  return {{"batch", sizes.batch},
          {"steps", steps},
          {"warmup", steps / 20},
          {"lr", 1e-3},
          {"min_lr", 1e-4},
          {"weight_decay", 0.1},
          {"clip", 1.0},
          {"log_interval", 1},
          {"eval_interval", std::max<int64_t>(1, steps / 8)},
          {"eval_batches", sizes.eval_batches},
          {"final_eval_batches", sizes.eval_batches},
          {"checkpoint_interval", std::max<int64_t>(1, steps / 4)},
          {"heads", sizes.heads}};
}

// MGT adds two d × d maps to each of two connections of a block of 12 d², 4 d² more. A pre-norm
// model of the same depth has as many parameters at √(4/3) of the width.
int64_t matched_width(int64_t width, int64_t heads) {
  const auto step = 2 * heads;
  return (static_cast<int64_t>(1.1547 * static_cast<double>(width)) + step / 2) / step * step;
}

const json kPostNorm = {{"connection", "additive"}, {"norm", "post"}};
const json kPreNorm = {{"connection", "additive"}, {"norm", "pre"}};
// A sublayer between two factors of 0.226 starts small, and AdamW takes short steps on it: this
// setting explains EΔ's results without any operator (docs/notebook/what_helps.md).
const json kSmallPreNorm = {
    {"connection", "additive"}, {"norm", "pre"}, {"maps", "fixed"}, {"maps_factor", 0.226}};
const json kRectifyOnly = {{"connection", "mgt"}, {"rectify", true}, {"delta", false}};
const json kDeltaOnly = {{"connection", "mgt"}, {"rectify", false}, {"delta", true}};
const json kWholeMgt = {{"connection", "mgt"}, {"rectify", true}, {"delta", true}};

// Deep branches of a pre-norm model have a smaller weight, without a parameter (as with norms
// divided by √l: Sun et al., arXiv:2502.05795). An effect of this arm is not due to MGT's geometry.
Arm with_root_branches(Arm arm) {
  arm.name += "_root";
  arm.label += ", branches / √l";
  arm.config["branch_power"] = 0.5;
  return arm;
}

std::vector<Arm> mgt_arms(const json& common, int64_t width, int64_t heads) {
  const auto arm = [&](const char* name, const char* label, const json& connection, int64_t wide) {
    return Arm{name, label, with(with(common, connection), {{"width", wide}})};
  };
  return {arm("pre", "pre-norm", kPreNorm, width),
          arm("post", "post-norm (the paper's control)", kPostNorm, width),
          arm("mhc", "+ mHC (mgt, rectify only)", kRectifyOnly, width),
          arm("ddl", "+ DDL (mgt, delta only)", kDeltaOnly, width),
          arm("mgt", "MGT", kWholeMgt, width),
          arm("pre_matched", "pre-norm, as many parameters as MGT", kPreNorm,
              matched_width(width, heads)),
          arm("pre_small", "pre-norm, as many parameters, small start", kSmallPreNorm,
              matched_width(width, heads))};
}

Column depth_column(const json& data, int64_t layers) {
  return {fmt::format("L{}", layers), fmt::format("{} layers", layers),
          with(data, {{"layers", layers}})};
}

Experiment rank_experiment(const MgtSizes& sizes, const json& data) {
  std::vector<Column> columns;
  for (const auto layers : sizes.depths) columns.push_back(depth_column(data, layers));
  return {.name = "rank",
          .title = "Experiment 1: rank against depth",
          .text =
              "Effective rank over min(T, D) of the states of validation windows (Eq. 8). The "
              "paper's H1: without MGT it goes to 0 with depth; H2: with MGT it stays above 0.5. "
              "i.i.d. Gaussian values have 0.806 for 256 × 256 and 0.928 for 128 × 256.",
          .columns = columns,
          .arms = mgt_arms(mgt_training(sizes, sizes.steps), sizes.width, sizes.heads),
          .rates = sizes.rates,
          .measures = {"ranks", "gradients"}};
}

Experiment ablation_experiment(const MgtSizes& sizes, const json& data) {
  return {.name = "ablation",
          .title = "Experiment 2: the effect of each part",
          .text =
              "S = L(+mHC) + L(+DDL) − L(base) − L(MGT): above 0 if both parts together gain more "
              "than apart. The base enters with −1, so a base that does not train makes S negative "
              "whatever MGT does: S is given with pre-norm, which is MGT with both parts off, and "
              "with post-norm, as printed.",
          .columns = {depth_column(data, sizes.ablation_depth)},
          .arms = mgt_arms(mgt_training(sizes, sizes.steps), sizes.width, sizes.heads),
          .rates = sizes.rates};
}

Experiment beta_experiment(const MgtSizes& sizes, const json& data, const json& shuffled) {
  // More and shorter evaluations than elsewhere, because this experiment follows β over time.
  const auto common = with(mgt_training(sizes, sizes.steps),
                           {{"width", sizes.width},
                            {"eval_interval", std::max<int64_t>(1, sizes.steps / 12)},
                            {"eval_batches", std::min<int64_t>(sizes.eval_batches, 8)}});
  auto real = depth_column(data, sizes.beta_depth),
       noise = depth_column(shuffled, sizes.beta_depth);
  real.label = "text";
  noise.name += "-shuffled";
  noise.label = "shuffled tokens";
  return {.name = "beta",
          .title = "Experiment 3: β over layers and time",
          .text =
              "The paper expects β to turn negative in deep layers and reads that as erasure. "
              "Shuffled tokens leave only their frequencies to learn: a sign pattern "
              "that appears there too is not erasure. With α = 0, its initial value, nothing is "
              "erased for any β. Two initial values, because b_β is not published.",
          .columns = {real, noise},
          .arms = {{"start2", "b_β = 2 (a pre-norm block)",
                    with(common, with(kWholeMgt, {{"beta_bias", 2.0}}))},
                   {"start0", "b_β = 0 (its sign is free)",
                    with(common, with(kWholeMgt, {{"beta_bias", 0.0}}))}},
          .measures = {"beta"}};
}

// About 20M parameters with 8,192 pieces; 0.92M at scale cpu.
Experiment depth_experiment(const MgtSizes& sizes, const json& data, const std::string& scale) {
  struct Width {
    int64_t layers, standard, mgt;
  };
  std::vector<Width> widths = {
      {12, 344, 304}, {24, 248, 216}, {48, 176, 152}, {100, 128, 112}, {200, 88, 80}};
  if (scale == "quick") widths = {{2, 128, 112}, {4, 88, 76}, {8, 64, 56}};
  if (scale == "cpu") widths = {{12, 80, 68}, {48, 40, 34}, {100, 28, 24}};
  auto common = mgt_training(sizes, sizes.steps);
  if (scale == "cpu") common["heads"] = 2;  // a width of 34 is not divisible by four
  Experiment experiment{
      .name = "depth",
      .title = "Experiment 4: depth at an equal number of parameters",
      .text =
          "Widths are chosen so that every model has about as many parameters, 20M at scale "
          "gpu, 0.92M at scale cpu. The paper claims that MGT gains from depth and that its lead "
          "grows with it.",
      .columns = {},
      .arms = {{"pre", "pre-norm", with(common, kPreNorm)},
               {"post", "post-norm", with(common, kPostNorm)},
               {"mgt", "MGT", with(common, kWholeMgt)}},
      .rates = sizes.rates,
      .measures = {"gradients"}};
  for (const auto& one : widths) {
    experiment.columns.push_back(depth_column(data, one.layers));
    const auto& column = experiment.columns.back().name;
    for (auto& arm : experiment.arms)
      arm.at[column] = {{"width", arm.name == "mgt" ? one.mgt : one.standard}};
  }
  for (const auto* name : {"pre", "mgt"})
    experiment.arms.push_back(with_long_warmup(experiment.arm(name), 4));
  experiment.arms.push_back(with_root_branches(experiment.arm("pre")));
  return experiment;
}

Experiment language_experiment(const MgtSizes& sizes, const json& data) {
  auto all = mgt_arms(mgt_training(sizes, sizes.language_steps), sizes.language_width, sizes.heads);
  std::erase_if(all, [](const Arm& arm) { return arm.name == "mhc" || arm.name == "ddl"; });
  Experiment experiment{
      .name = "language",
      .title = "Experiment 5: a language model",
      .text =
          "The paper's sizes (d = 512, 24 layers) have 79.7M parameters with 8,192 pieces, not "
          "the printed 50M.",
      .columns = {depth_column(data, sizes.language_depth)},
      .arms = all,
      .rates = sizes.rates,
      .measures = {"other_texts", "sample", "gradients"}};
  for (const auto* name : {"pre_matched", "mgt"})
    experiment.arms.push_back(with_long_warmup(experiment.arm(name), 4));
  experiment.arms.push_back(with_root_branches(experiment.arm("pre_matched")));
  return experiment;
}

// MGT's synthetic task.
Experiment copy_experiment(const MgtSizes& sizes, const std::string& scale) {
  std::vector<Column> columns;
  for (const int64_t length : {64, 256}) {
    if (scale != "gpu" && length > 64) continue;
    for (const auto layers : sizes.depths)
      columns.push_back({fmt::format("T{}-L{}", length, layers),
                         fmt::format("length {}, {} layers", length, layers),
                         {{"task", "copy"}, {"length", length}, {"layers", layers}}});
  }
  return {.name = "copy",
          .title = "The copy task",
          .text =
              "Cross entropy of the copied half, ln 32 = 3.47 by guessing, and how much of it is "
              "right.",
          .columns = columns,
          .arms = mgt_arms(mgt_training(sizes, sizes.steps), sizes.width, sizes.heads),
          .measures = {"accuracy"}};
}

}  // namespace

LanguagePaper mgt_paper(const std::string& scale, const std::string& data) {
  const auto sizes = mgt_sizes(scale);
  const auto task = [&](const std::string& name) {
    return text_task(data, name, sizes.context, sizes.validation_ids);
  };
  const auto text = task(sizes.data), shuffled = task(sizes.data + "-shuffled"),
             books = task(sizes.books);
  LanguagePaper paper{
      .name = "mgt",
      .title = "MGT, the first results",
      .text =
          "\"Geometric and Dynamic Scaling in Deep Transformers\" describes five experiments and "
          "publishes no result of any. Its control is post-norm; Algorithm 1 is pre-norm, so "
          "pre-norm, and not post-norm, is MGT with both parts off. Scale gpu: WikiText-2, width "
          "256, context 256, 20M tokens, 12 to 200 layers, and books. Scale quick: tinyshakespeare "
          "by characters, width 64, context 64, 40 steps of 1,024 tokens, 2 to 8 layers, one "
          "seed, losses on 8,192 characters. Scale cpu: the same text, width and context, 600 "
          "steps of 512 tokens, 12 to 100 layers, losses on 32,768 characters.",
      .experiments = {rank_experiment(sizes, text), ablation_experiment(sizes, text),
                      beta_experiment(sizes, text, shuffled), depth_experiment(sizes, text, scale),
                      language_experiment(sizes, books), copy_experiment(sizes, scale)},
      .claims = {}};
  const auto deepest = fmt::format("L{}", sizes.depths.back());
  const auto ablated = fmt::format("L{}", sizes.ablation_depth);
  const auto large = fmt::format("L{}", sizes.language_depth);
  paper.claims = {
      {"MGT beats post-norm at the greatest depth", "rank", deepest, "mgt", "post"},
      {"MGT beats pre-norm at the greatest depth", "rank", deepest, "mgt", "pre"},
      {"MGT beats pre-norm of as many parameters", "rank", deepest, "mgt", "pre_matched"},
      {"MGT beats pre-norm with a small start", "rank", deepest, "mgt", "pre_small"},
      {"the gate alone beats pre-norm", "ablation", ablated, "mhc", "pre"},
      {"the delta rule alone beats pre-norm", "ablation", ablated, "ddl", "pre"},
      {"MGT beats the gate alone", "ablation", ablated, "mgt", "mhc"},
      {"MGT beats the delta rule alone", "ablation", ablated, "mgt", "ddl"},
      {"MGT beats pre-norm at an equal number of parameters and the greatest depth", "depth",
       paper.experiments[3].columns.back().name, "mgt", "pre"},
      {"MGT beats pre-norm there, both with four times the warm-up", "depth",
       paper.experiments[3].columns.back().name, "mgt_warm", "pre_warm"},
      {"MGT beats pre-norm there whose branches are divided by √l", "depth",
       paper.experiments[3].columns.back().name, "mgt", "pre_root"},
      {"MGT is the better language model than pre-norm of as many parameters", "language", large,
       "mgt", "pre_matched"},
      {"MGT is the better one with four times the warm-up, too", "language", large, "mgt_warm",
       "pre_matched_warm"},
      {"MGT is better than that pre-norm with branches / √l", "language", large, "mgt",
       "pre_matched_root"}};
  return paper;
}

}  // namespace geores
