#include "geores/train/run/train_config.h"

#include <algorithm>
#include <cmath>

#include "geores/base/error.h"
#include "geores/base/nearest.h"
#include "geores/data/epoch_sampler.h"
#include "geores/data/tasks/puzzles.h"
#include "geores/model/recursive/recursive_kind.h"
#include "geores/ops/run/execution.h"
#include "geores/train/communication/shared_run.h"
#include "geores/train/optimizer/schedule.h"
#include "geores/train/training_step.h"

namespace geores {
namespace {

using nlohmann::json;

std::string text_at(const json& object, const std::string& key, const std::string& where) {
  require(object[key].is_string(), where, "'{}' must be text, got {}", key, object[key].dump());
  return object[key].get<std::string>();
}

bool has_field(const Fields& fields, const std::string& key) {
  return std::ranges::find(fields.all(), key, &Field::key) != fields.all().end();
}

bool is_kind(const ModelKinds& kinds, const std::string& name) {
  return std::ranges::find(kinds, name, &ModelKind::name) != kinds.end();
}

// The value that runs wrote when only blocks could be recomputed; the fingerprint of puzzles, which
// RunFiles reads.
void rename_old_keys(json& object) {
  object.erase(kDataFingerprint);
  const auto old = object.find("checkpoint_blocks");
  if (old == object.end() || !old->is_boolean()) return;
  const bool blocks = *old;
  object.erase("checkpoint_blocks");
  if (!object.contains("checkpoint")) object["checkpoint"] = blocks ? "blocks" : "none";
}

// Removes "task" and "model" from the object. A "model" that is not a kind becomes the leading
// option.
void read_names(json& object, TrainConfig& config, const ModelKinds& kinds,
                const std::string& where) {
  if (object.contains("task")) {
    const auto& task = find_task(text_at(object, "task", where));
    if (task.method != config.method())
      config = TrainConfig(task.name);
    else if (task.name != config.task.name)
      config.task = {.name = task.name};
    object.erase("task");
  }
  if (!object.contains("model")) return;
  const auto name = text_at(object, "model", where);
  object.erase("model");
  if (is_kind(kinds, name)) {
    if (name != config.model.kind) config.model = {.kind = name};
    return;
  }
  const auto& leading = find_model_kind(kinds, config.model.kind).leading_option;
  if (leading.empty()) find_model_kind(kinds, name);  // throws for an unknown kind
  require(!object.contains(leading) || object[leading] == name, where,
          "'model' {} and '{}' {} contradict each other", name, leading,
          object.value(leading, json()).dump());
  object[leading] = name;
}

[[noreturn]] void refuse_key(const std::string& key, const TrainConfig& config,
                             const OptionSet& model_options, const Fields& fields,
                             const ModelKinds& kinds, const std::string& where) {
  for (const auto& task : tasks())
    require(!task.options.has(key), where, "'{}' is not an option of task {}", key,
            config.task.name);
  for (const auto* other : {"gyroscope", "puzzles"})
    require(!has_field(TrainConfig(other).fields(), key), where, "'{}' is not an option of task {}",
            key, config.task.name);
  require(!find_model_kind(kinds, config.model.kind).all_options().has(key), where,
          "'{}' is not an option of model {}", key, config.model.label(kinds));
  auto known = model_options.keys();
  for (const auto& option : find_task(config.task.name).options.all()) known.push_back(option.key);
  for (const auto& field : fields.all()) known.push_back(field.key);
  known.insert(known.end(), {"task", "model"});
  fail(where, "unknown key '{}'{}", key, did_you_mean(key, known));
}

}  // namespace

TrainConfig::TrainConfig(const std::string& task_name) : task{.name = task_name} {
  if (method() != Method::puzzles) return;
  model.kind = "recursive";
  steps = 0;
  batch = 768;
  lr = 1e-4;
  warmup = 2000;
  schedule = "constant";
  eval_interval = checkpoint_interval = 1000;
}

int64_t TrainConfig::parts(int64_t rows) const {
  if (method() == Method::sequences) return accumulate;
  return micro_batch > 0 ? rows / micro_batch : 1;
}

Fields TrainConfig::fields() {
  return method() == Method::puzzles ? fields_of_puzzles() : fields_of_sequences();
}

Fields TrainConfig::fields_of_sequences() {
  return Fields()
      .add("steps", steps, "optimiser steps", {.min = 1})
      .add("batch", batch, "sequences per step, drawn with replacement", {.min = 1})
      .add("accumulate", accumulate, "parts into which a batch is split to save memory", {.min = 1})
      .add("seed", seed, "of the initial weights and of the batches", {.min = 0})
      .add("lr", lr, "peak learning rate", {.min = 0})
      .add("min_lr", min_lr, "learning rate at the end", {.min = 0})
      .add("warmup", warmup, "steps of linear warm-up", {.min = 0})
      .add("weight_decay", weight_decay,
           "on tensors of rank >= 2; not on static maps of hyper-connections", {.min = 0})
      .add("clip", clip, "largest gradient norm", {.min = 0})
      .choice("optimizer", optimizer, {"adamw", "muon"},
              "muon: the matrices of blocks move by orthogonalised steps, the rest by AdamW")
      .add("beta1", beta1, "AdamW: decay of the mean gradient", {.min = 0, .max = 0.999999})
      .add("beta2", beta2, "AdamW: decay of the mean squared gradient", {.min = 0, .max = 0.999999})
      .add("epsilon", epsilon, "AdamW: added to the root of the mean squared gradient", {.min = 0})
      .choice("schedule", schedule, {"papers", "nanogpt"},
              "warm-up from 0, or from lr/(warmup + 1) as nanoGPT has it")
      .add("epochs", epochs, "text: sets the steps to so many passes over the text; 0: steps",
           {.min = 0})
      .add("eval_interval", eval_interval, "steps between evaluations", {.min = 1})
      .add("eval_batches", eval_batches, "random batches per evaluation", {.min = 1})
      .add("final_eval_batches", final_eval_batches, "random batches after the last step",
           {.min = 1})
      .add("log_interval", log_interval, "steps between lines of metrics.jsonl", {.min = 1})
      .add("checkpoint_interval", checkpoint_interval, "steps between checkpoints", {.min = 1})
      .choice("device", device, {"cpu", "cuda"}, "where to compute")
      .choice("precision", precision, precision_names(),
              "of products; bf16: factors in bfloat16, all else float32; bf16_state: the state of "
              "hc, mhc, mhc_lite, shc and jpmhc, too, on a GPU; evaluation in float32, on a GPU in "
              "tf32")
      .choice(
          "checkpoint", checkpoint, recompute_names(),
          "to save memory, the backward pass computes blocks, or all but their sublayers, again");
}

Fields TrainConfig::fields_of_puzzles() {
  return Fields()
      .add("steps", steps, "optimiser steps; 0: from epochs", {.min = 0})
      .add("epochs", visits, "visits of every group of puzzles; 0: from steps", {.min = 0})
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
              "of products; bf16_state: on a GPU the state is kept in bfloat16, too");
}

void TrainConfig::read(const json& object, const std::string& where, const ModelKinds& kinds) {
  require(object.is_object(), where, "a configuration is a JSON object, got {}",
          object.type_name());
  auto rest = object;
  auto next = *this;
  rename_old_keys(rest);
  read_names(rest, next, kinds, where);

  const auto& kind = find_model_kind(kinds, next.model.kind);
  auto model_given = next.model.options;
  model_given.update(rest);
  const auto model_options = kind.options(model_given);
  const auto& task_options = find_task(next.task.name).options;
  auto own = json::object();
  const auto known = next.fields();
  for (const auto& [key, value] : rest.items()) {
    if (has_field(known, key))
      own[key] = value;
    else if (stood_for_default(key, value))
      next.task.options.erase(key);
    else if (task_options.has(key))
      next.task.options[key] = value;
    else if (model_options.has(key))
      next.model.options[key] = value;
    else
      refuse_key(key, next, model_options, known, kinds, where);
  }
  known.read(own, where);
  task_options.complete(next.task.options, where);
  model_options.complete(next.model.options, where);
  *this = next;
}

void TrainConfig::read_texts(const std::map<std::string, std::string>& given,
                             const std::string& where, const ModelKinds& kinds) {
  auto names = json::object();
  for (const auto* key : {"task", "model"})
    if (const auto found = given.find(key); found != given.end()) names[key] = found->second;
  auto next = *this;
  next.read(names, where, kinds);
  const auto& leading = find_model_kind(kinds, next.model.kind).leading_option;
  if (const auto found = given.find(leading); found != given.end())
    next.read({{leading, found->second}}, where, kinds);

  const auto fields = next.fields();
  const auto model_options = find_model_kind(kinds, next.model.kind).options(next.model.options);
  const auto& task_options = find_task(next.task.name).options;
  auto values = json::object();
  for (const auto& [key, text] : given) {
    if (key == "task" || key == "model" || key == leading) continue;
    if (has_field(fields, key)) {
      const auto field = std::ranges::find(fields.all(), key, &Field::key);
      field->set_from_text(text, where);
      values[key] = field->to_json();
    } else if (stood_for_default(key, text == "0" ? json(0) : json(text))) {
      continue;
    } else if (task_options.has(key)) {
      values[key] = task_options.from_text(key, text, where);
    } else if (model_options.has(key)) {
      values[key] = model_options.from_text(key, text, where);
    } else {
      refuse_key(key, next, model_options, fields, kinds, where);
    }
  }
  next.read(values, where, kinds);
  *this = next;
}

void TrainConfig::complete(const ModelKinds& kinds) {
  task = task.completed();
  model = model.completed(kinds);
}

json TrainConfig::write(const ModelKinds& kinds) const {
  auto copy = *this;
  copy.complete(kinds);
  auto object = copy.fields().write();
  object.update(copy.task.to_json());
  object.update(copy.model.to_json());
  return object;
}

InputShape input_shape(const Dataset& dataset) {
  return {.length = dataset.length(),
          .width = dataset.input_width(),
          .vocabulary = dataset.vocabulary,
          .spare_positions = dataset.spare_positions};
}

void complete_from_data(TrainConfig& config, const Dataset& dataset) {
  config.model.options.update(dataset.model_options);
  if (dataset.puzzle_set) {
    require(config.steps > 0 || config.visits > 0, "train", "task {} needs --steps or --epochs",
            config.task.name);
    if (config.steps > 0) return;
    const auto& rows = dataset.puzzle_set->train();
    config.steps = puzzles::TrainingOrder(rows, static_cast<uint64_t>(config.seed), config.batch)
                       .planned_steps(config.visits);
    require(config.steps >= 1, "train", "{} epochs of {} rows are less than one batch of {}",
            config.visits, rows.rows(), config.batch);
    return;
  }
  if (config.epochs == 0) return;
  require(dataset.text(), "train", "epochs are counted for text only; give --steps");
  const EpochSampler sampler(0, dataset.train_ids.size(0), dataset.length());
  const auto steps =
      config.epochs * static_cast<double>(sampler.windows()) / static_cast<double>(config.batch);
  require(steps < 1e12, "train",
          "{:g} epochs of this text are {:.3g} steps: more than geores counts", config.epochs,
          steps);
  config.steps = std::max<int64_t>(1, std::llround(std::ceil(steps)));
}

void require_trainable(const TrainConfig& config, int64_t processes) {
  if (config.method() == Method::puzzles) {
    require(config.model.kind == "recursive", "train", "task {} trains model recursive, not {}",
            config.task.name, config.model.kind);
    require(config.micro_batch == 0 || config.batch % config.micro_batch == 0, "train",
            "batch {} is not divisible by micro_batch {}", config.batch, config.micro_batch);
    recursive_options(config.model).check();
    require_divisible(processes, config.batch, std::max<int64_t>(config.micro_batch, 1),
                      "rows of micro_batch");
  } else {
    require_divisible(processes, config.batch, config.accumulate, "accumulate");
  }
  require(config.precision != "tf32" || config.device == "cuda", "train",
          "precision tf32 needs device cuda; a CPU trains in fp32 and bf16");
}

OptimizerOptions optimizer_options(const TrainConfig& config) {
  OptimizerOptions options{.method = config.optimizer,
                           .beta1 = config.beta1,
                           .beta2 = config.beta2,
                           .epsilon = config.epsilon,
                           .weight_decay = config.weight_decay,
                           .clip = config.clip};
  if (config.method() == Method::puzzles) {
    options.method = "adam_atan2";
    options.table_decay = config.table_decay;
    options.average = config.ema;
  }
  return options;
}

LearningRates learning_rates(const TrainConfig& config, int64_t step) {
  if (config.method() == Method::sequences)
    return Schedule{.peak = config.lr,
                    .floor = config.min_lr,
                    .warmup = config.warmup,
                    .total = config.steps,
                    .from_zero = config.schedule != "nanogpt"}
        .at(step);
  const auto factor = config.schedule == "step"
                          ? step_decay(step + 1, config.warmup, config.steps)
                          : Schedule{.peak = 1,
                                     .floor = config.schedule == "cosine" ? config.min_ratio : 1.0,
                                     .warmup = config.warmup,
                                     .total = config.steps}
                                .at(step + 1);
  return {config.lr * factor, config.table_lr * factor};
}

}  // namespace geores
