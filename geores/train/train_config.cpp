#include "geores/train/train_config.h"

#include "geores/base/error.h"

namespace geores {

Fields TrainConfig::fields() {
  return Fields()
      .add_all(task.fields())
      .add("model", model, "residual connection, see `geores list`")
      .add("layers", layers, "blocks", {.min = 1, .max = 10000})
      .add("width", width, "values per token", {.min = 1})
      .add("heads", heads, "attention heads", {.min = 1})
      .add("streams", streams, "residual streams", {.min = 1})
      .add("steps", steps, "optimiser steps", {.min = 1})
      .add("batch", batch, "sequences per step, drawn with replacement", {.min = 1})
      .add("accumulate", accumulate, "parts into which a batch is split to save memory", {.min = 1})
      .add("seed", seed, "of the initial weights and of the batches", {.min = 0})
      .add("lr", lr, "peak learning rate", {.min = 0})
      .add("min_lr", min_lr, "learning rate at the end", {.min = 0})
      .add("warmup", warmup, "steps of linear warm-up", {.min = 0})
      .add("weight_decay", weight_decay, "on tensors of rank >= 2", {.min = 0})
      .add("clip", clip, "largest gradient norm", {.min = 0})
      .add("eval_interval", eval_interval, "steps between evaluations", {.min = 1})
      .add("eval_batches", eval_batches, "random batches per evaluation", {.min = 1})
      .add("final_eval_batches", final_eval_batches, "random batches after the last step",
           {.min = 1})
      .add("log_interval", log_interval, "steps between lines of metrics.jsonl", {.min = 1})
      .add("checkpoint_interval", checkpoint_interval, "steps between checkpoints", {.min = 1})
      .choice("device", device, {"cpu", "cuda"}, "where to compute")
      .choice(
          "precision", precision, {"fp32", "tf32", "bf16"},
          "of products; bf16: factors in bfloat16, all else float32; evaluation in float32, on a "
          "GPU in tf32")
      .add("checkpoint_blocks", checkpoint_blocks,
           "keep only block inputs and recompute the rest in the backward pass");
}

void TrainConfig::read(const nlohmann::json& object, const std::string& where) {
  require(object.is_object(), where, "a configuration is a JSON object, got {}",
          object.type_name());
  auto own = nlohmann::json::object(), rest = nlohmann::json::object();
  const auto known = fields();
  for (const auto& [key, value] : object.items()) {
    const auto mine = std::any_of(known.all().begin(), known.all().end(),
                                  [&](const Field& field) { return field.key == key; });
    (mine ? own : rest)[key] = value;
  }
  known.read(own, where);

  std::vector<std::string> keys;
  for (const auto& field : known.all()) keys.push_back(field.key);
  const auto& connection = find_connection(model);
  for (const auto& option : connection.options) keys.push_back(option.key);
  for (const auto& [key, value] : rest.items()) {
    const auto is_option = std::any_of(connection.options.begin(), connection.options.end(),
                                       [&](const auto& option) { return option.key == key; });
    if (is_option) continue;
    const auto near = nearest(key, keys);
    fail(where, "unknown key '{}' for model {}{}", key, model,
         near.empty() ? "" : ", did you mean '" + near + "'?");
  }
  options.update(rest);
}

nlohmann::json TrainConfig::write() const {
  auto copy = *this;
  auto object = copy.fields().write();
  object.update(options);
  return object;
}

TransformerConfig model_config(const TrainConfig& config, const Dataset& dataset) {
  return {.connection = config.model,
          .input = dataset.tokens() ? "tokens" : "continuous",
          .layers = config.layers,
          .width = config.width,
          .heads = config.heads,
          .streams = config.streams,
          .context = dataset.length() + 1,  // the reference has one position more than it needs
          .input_width = dataset.input_width(),
          .vocabulary = std::max<int64_t>(dataset.vocabulary, 1),
          .options = config.options};
}

}  // namespace geores
