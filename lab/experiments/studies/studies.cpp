#include "lab/experiments/studies/studies.h"

#include <algorithm>
#include <numeric>

#include "geores/base/error.h"
#include "geores/base/nearest.h"
#include "geores/model/recursive/recursive_kind.h"

namespace geores {
namespace {

using nlohmann::json;

json expanded(const char* mixer) { return {{"mixer", mixer}, {"layout", "expand"}}; }

std::vector<StudyArm> all_arms() {
  auto edelta = expanded("edelta");
  edelta["hidden"] = 16;
  auto unmixed = edelta;
  unmixed["mixer_start"] = "identity";
  return {{"none", "no mixer", {{"mixer", "none"}}},
          {"cayley", "JPmHC, Cayley", expanded("cayley")},
          {"sinkhorn", "JPmHC, Sinkhorn", expanded("sinkhorn")},
          {"edelta", "EΔ", edelta},
          {"identity", "identity, Cayley's routes", expanded("identity")},
          {"sinkhorn_softmax", "Sinkhorn, Cayley's routes", expanded("sinkhorn_softmax")},
          {"cayley_exact", "JPmHC, exact Cayley", expanded("cayley_exact"), true},
          {"edelta_identity", "identity, EΔ's routes", unmixed, true}};
}

json common(const json& changes) {
  json config = {{"streams", 4},       {"layers", 2},        {"h_cycles", 3},
                 {"ema", 0.999},       {"clip", 1.0},        {"warmup", 200},
                 {"lr", 1e-3},         {"table_lr", 1e-3},   {"weight_decay", 0.1},
                 {"table_decay", 0.1}, {"log_interval", 50}, {"eval_rows", 500}};
  config.update(changes);
  return config;
}

std::vector<Study> make_studies() {
  const auto size = [](int64_t width, int64_t prefix, int64_t cycles, int64_t passes, int64_t batch,
                       int64_t steps) {
    return common({{"width", width},
                   {"heads", width / 32},
                   {"prefix", prefix},
                   {"l_cycles", cycles},
                   {"act_steps", passes},
                   {"batch", batch},
                   {"steps", steps},
                   {"eval_interval", std::max<int64_t>(steps / 8, 1)},
                   {"checkpoint_interval", std::max<int64_t>(steps / 4, 1)}});
  };
  const auto with_average = [](double decay, json config) {
    config["ema"] = decay;
    return config;
  };
  auto nine_arms = all_arms();
  nine_arms.push_back({"mlp_t",
                       "no mixer, MLP over positions",
                       {{"mixer", "none"}, {"mlp_t", true}, {"positions", "none"}}});
  auto ten = size(256, 4, 4, 16, 256, 8000);
  ten["votes"] = 32;
  auto seven = with_average(0.99, size(128, 4, 4, 8, 256, 4000));
  seven["votes"] = 16;
  seven["table_lr"] = 1e-2;
  auto four = with_average(0.99, size(64, 1, 3, 6, 64, 2000));
  four["h_cycles"] = 2;
  return {
      {.name = "s6",
       .title = "Sudoku 6 × 6",
       .text = "1000 puzzles hardened by 50 rounds, with fresh shuffles.",
       .data = {.kind = "sudoku",
                .size = 6,
                .rounds = {50},
                .train = 1000,
                .test = 1000,
                .variants = 1000},
       .config = size(128, 1, 3, 8, 256, 4000),
       .plain_hidden = 344,
       .arms = all_arms()},
      {.name = "s9",
       .title = "Sudoku 9 × 9",
       .text = "Half minimal puzzles, half hardened by 20 rounds.",
       .data = {.kind = "sudoku",
                .size = 9,
                .rounds = {0, 20},
                .train = 1000,
                .test = 2000,
                .variants = 1000},
       .config = size(128, 1, 6, 16, 384, 8000),
       .plain_hidden = 344,
       .arms = nine_arms},
      {.name = "s9_clues",
       .title = "Sudoku 9 × 9 with 36 clues",
       .text = "Easier puzzles than those of s9, for which 4,000 steps are too few: nearly all of "
               "them yield to singles alone. The average of the weights forgets in 100 steps, not "
               "in 1,000, because there are so few.",
       .data = {.kind = "sudoku",
                .size = 9,
                .rounds = {0},
                .clues = 36,
                .train = 1000,
                .test = 1000,
                .variants = 1000},
       .config = with_average(0.99, size(128, 1, 6, 16, 384, 2500)),
       .plain_hidden = 344,
       .arms = all_arms()},
      {.name = "m15",
       .title = "Mazes 15 × 15",
       .text = "Mazes with one shortest path.",
       .data = {.kind = "maze", .size = 15, .train = 1000, .test = 1000},
       .config = size(128, 1, 4, 16, 256, 5000),
       .plain_hidden = 344,
       .arms = all_arms()},
      {.name = "a10",
       .title = "ARC-AGI-1, grids up to 10 × 10",
       .text = "All tasks whose grids fit 10 × 10, 100 variants each; 32 variants vote.",
       .data = {.kind = "arc", .size = 10, .variants = 100},
       .config = ten,
       .plain_hidden = 688,
       .arms = all_arms()},
      {.name = "a7",
       .title = "ARC-AGI-1, grids up to 7 × 7",
       .text = "82 tasks, few enough to be learned in minutes: 16 variants each, eight passes. The "
               "learning rate of the table is TRM's, ten times that of the weights.",
       .data = {.kind = "arc", .size = 7, .variants = 16},
       .config = seven,
       .plain_hidden = 344,
       .arms = all_arms()},
      {.name = "s4",
       .title = "Sudoku 4 × 4",
       .text =
           "Small enough for a CPU: width 64, 2 × 3 cycles, six passes. Minimal puzzles of this "
           "size are of 36 kinds, about nine of them for testing, and all yield to singles.",
       .data = {.kind = "sudoku",
                .size = 4,
                .rounds = {0},
                .train = 1000,
                .test = 1000,
                .variants = 1000},
       .config = four,
       .plain_hidden = 176,
       .arms = all_arms()}};
}

}  // namespace

const StudyArm& Study::arm(const std::string& wanted) const {
  std::vector<std::string> known;
  for (const auto& one : arms) {
    if (one.name == wanted) return one;
    known.push_back(one.name);
  }
  fail("study", "{} has no arm '{}'{}", name, wanted, did_you_mean(wanted, known));
}

std::vector<const StudyArm*> Study::chosen(const std::vector<std::string>& names) const {
  std::vector<const StudyArm*> found;
  if (names.empty())
    for (const auto& one : arms)
      if (!one.extra) found.push_back(&one);
  for (const auto& wanted : names) found.push_back(&arm(wanted));
  return found;
}

const std::vector<Study>& puzzle_studies() {
  static const auto all = make_studies();
  return all;
}

const Study& find_study(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& study : puzzle_studies()) {
    if (study.name == name) return study;
    known.push_back(study.name);
  }
  fail("study", "unknown study '{}'{}", name, did_you_mean(name, known));
}

Study quick_study(const Study& study) {
  auto quick = study;
  quick.scale = "quick";
  quick.plain_hidden = 88;
  quick.config.update({{"width", 32},
                       {"heads", 2},
                       {"streams", 2},
                       {"h_cycles", 2},
                       {"l_cycles", 2},
                       {"act_steps", 4},
                       {"batch", 16},
                       {"steps", 30},
                       {"warmup", 5},
                       {"log_interval", 10},
                       {"eval_interval", 30},
                       {"checkpoint_interval", 10},
                       {"eval_rows", 32},
                       {"hidden", 4}});
  for (auto& arm : quick.arms)
    if (arm.config.contains("hidden")) arm.config["hidden"] = 4;
  auto& data = quick.data;
  if (data.kind == "sudoku") data.size = 4;
  if (data.kind == "maze") data.size = 10;
  std::ranges::fill(data.rounds, 0);
  data.clues = 0;
  data.train = data.train > 0 ? 24 : 0;
  data.test = data.test > 0 ? 16 : 0;
  data.variants = std::min<int64_t>(data.variants, 4);
  quick.title += ", scale quick";
  quick.text = fmt::format(
      "30 steps of a small model on a few {}: it only shows that everything runs; "
      "the numbers mean nothing.",
      data.kind == "arc" ? fmt::format("ARC tasks of up to {0} × {0}", data.size)
                         : fmt::format("{1}s of {0} × {0}", data.size, data.kind));
  return quick;
}

TrainConfig study_config(const Study& study, const StudyArm& arm, int64_t seed,
                         const StudyOptions& options, const std::string& data) {
  TrainConfig config("puzzles");
  config.read(study.config, study.name);
  config.read(arm.config, arm.name);
  config.read({{"seed", seed},
               {"data", data},
               {"device", options.hardware.device},
               {"precision", options.hardware.precision}},
              study.name);
  for (const auto* key : {"mixer", "layout", "seed", "data", "device", "precision"})
    require(!options.changes.contains(key), "changes", "'{}' is set by the study", key);
  config.read(options.changes, "changes");
  // Equal width, with the mixers' parameters taken from the MLP. mlp_t has no counterpart.
  const auto model = recursive_options(config.model);
  if (model.mlp_hidden == 0)
    config.model.options["mlp_hidden"] = matched_mlp_hidden(model, study.plain_hidden);
  return config;
}

bool is_compared(const std::string& arm, const std::string& base) {
  if (arm == base) return false;
  return base == "none" || (base == "identity" && arm != "none") ||
         (base.starts_with("sinkhorn") && arm == "cayley") ||
         (base == "edelta_identity" && arm == "edelta");
}

}  // namespace geores
