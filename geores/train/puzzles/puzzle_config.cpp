#include "geores/train/puzzles/puzzle_config.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/ops/run/execution.h"
#include "geores/train/optimizer/schedule.h"

namespace geores {
namespace {

constexpr const char* kPuzzleTask = "puzzles";
constexpr const char* kPuzzleModel = "recursive";

// "task" and "model" have one allowed value each.
void take_name(nlohmann::json& object, const char* key, const char* name,
               const std::string& where) {
  if (!object.contains(key)) return;
  require(object[key] == name, where, "'{}' must be {} here, got {}", key, name,
          object[key].dump());
  object.erase(key);
}

}  // namespace

Fields PuzzleConfig::fields() {
  return Fields()
      .add("data", data, "folder of the data set (geores data ...)")
      .add("steps", steps, "optimiser steps; 0: from epochs", {.min = 0})
      .add("epochs", epochs, "visits of every group of puzzles; 0: from steps", {.min = 0})
      .add("batch", batch, "rows that think side by side", {.min = 1})
      .add("micro_batch", micro_batch, "rows at a time, to save memory; 0: the whole batch",
           {.min = 0})
      .add("seed", seed, "of the initial weights, the order of puzzles and exploration", {.min = 0})
      .add("lr", lr, "learning rate after the warm-up", {.min = 0})
      .add("table_lr", table_lr, "learning rate of the puzzle table", {.min = 0})
      .add("weight_decay", weight_decay, "of all parameters", {.min = 0})
      .add("table_decay", table_decay, "weight decay of the table rows of a batch", {.min = 0})
      .add("beta1", beta1, "of AdamAtan2", {.min = 0, .max = 0.999999})
      .add("beta2", beta2, "of AdamAtan2", {.min = 0, .max = 0.999999})
      .add("warmup", warmup, "steps of linear warm-up", {.min = 0})
      .choice("schedule", schedule, {"constant", "cosine", "step"},
              "learning rate after the warm-up; step: ×0.316 from 80 %, ×0.1 from 90 %")
      .add("min_ratio", min_ratio, "of schedule cosine: last learning rate over the first",
           {.min = 0, .max = 1})
      .add("clip", clip, "largest gradient norm; 0: none", {.min = 0})
      .add("ema", ema, "share of the old average of the weights that stays; 0: no average",
           {.min = 0, .max = 0.999999})
      .add("eval_interval", eval_interval, "steps between evaluations", {.min = 1})
      .add("eval_rows", eval_rows, "first rows of the test set to evaluate; 0: all", {.min = 0})
      .add("votes", votes, "variants of a test task to evaluate; 0: all", {.min = 0})
      .add("log_interval", log_interval, "steps between lines of metrics.jsonl", {.min = 1})
      .add("checkpoint_interval", checkpoint_interval, "steps between checkpoints", {.min = 1})
      .choice("device", device, {"cpu", "cuda"}, "where to compute")
      .choice("precision", precision, precision_names(),
              "of products; bf16_state: on a GPU the state is kept in bfloat16, too")
      .add_all(model.fields());
}

void PuzzleConfig::read(const nlohmann::json& object, const std::string& where) {
  require(object.is_object(), where, "a configuration is a JSON object, got {}",
          object.type_name());
  auto rest = object;
  take_name(rest, "task", kPuzzleTask, where);
  take_name(rest, "model", kPuzzleModel, where);
  fields().read(rest, where);
}

void PuzzleConfig::read_texts(const std::map<std::string, std::string>& given,
                              const std::string& where) {
  auto next = *this;
  nlohmann::json names = nlohmann::json::object();
  const auto known = next.fields();
  for (const auto& [key, text] : given) {
    if (key == "task" || key == "model") {
      names[key] = text;
      continue;
    }
    const auto field = std::ranges::find(known.all(), key, &Field::key);
    if (field == known.all().end())
      known.read({{key, text}}, where);  // throws and names the nearest key
    else
      field->set_from_text(text, where);
  }
  next.read(names, where);
  *this = next;
}

nlohmann::json PuzzleConfig::write() const {
  auto copy = *this;
  auto object = copy.fields().write();
  object["task"] = kPuzzleTask;
  object["model"] = kPuzzleModel;
  return object;
}

void PuzzleConfig::check() const {
  require(!data.empty(), "train", "task puzzles needs --data DIR, a folder that geores data made");
  require(steps > 0 || epochs > 0, "train", "task puzzles needs --steps or --epochs");
  require(micro_batch == 0 || batch % micro_batch == 0, "train",
          "batch {} is not divisible by micro_batch {}", batch, micro_batch);
  require(precision != "tf32" || device == "cuda", "train",
          "precision tf32 needs device cuda; a CPU trains in fp32 and bf16");
  model.check();
}

double PuzzleConfig::rate_factor(int64_t t) const {
  if (schedule == "step") {
    if (t < warmup) return static_cast<double>(t) / static_cast<double>(warmup);
    const auto done = static_cast<double>(t) / static_cast<double>(steps);
    return done >= 0.9 ? 0.1 : done >= 0.8 ? 0.316 : 1.0;
  }
  return Schedule{
      .peak = 1, .floor = schedule == "cosine" ? min_ratio : 1.0, .warmup = warmup, .total = steps}
      .at(t);
}

RecursiveStepOptions PuzzleConfig::step_options() const {
  return {.adam = {.beta1 = beta1, .beta2 = beta2, .weight_decay = weight_decay, .clip = clip},
          .table_decay = table_decay,
          .average = ema};
}

bool is_puzzle_config(const nlohmann::json& object) {
  return object.is_object() && object.contains("task") && object["task"] == kPuzzleTask;
}

}  // namespace geores
