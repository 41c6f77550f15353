#include "lab/experiments/experiment.h"

#include <algorithm>
#include <filesystem>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"

namespace geores {
namespace {

template <class Named>
const Named& find(const std::vector<Named>& all, const std::string& name, const char* what) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Named& one) { return one.name == name; });
  require(found != all.end(), "experiments", "no {} '{}'", what, name);
  return *found;
}

// The sizes of a complete configuration.
void shrink(TrainConfig& config, const Scale& scale) {
  auto& model = config.model.options;
  const auto set = [](nlohmann::json& options, const char* key, int64_t value) {
    if (value > 0) options[key] = value;
  };
  if (scale.width_divisor > 0)  // streams and heads must divide it
    model["width"] = (model.at("width").get<int64_t>() / scale.width_divisor + 7) / 8 * 8;
  if (scale.depth_divisor > 0)
    model["layers"] =
        std::max<int64_t>(1, (model.at("layers").get<int64_t>() + 1) / scale.depth_divisor);
  auto& task = config.task.options;
  set(task, "train_sequences",
      config.task.name == "gyroscope" ? scale.gyroscope_sequences : scale.train_sequences);
  set(task, "validation_sequences", scale.validation_sequences);
  set(task, "length", scale.length);
  if (scale.batch > 0) config.batch = scale.batch;
  if (scale.eval_batches > 0) {
    config.eval_batches = scale.eval_batches;
    config.final_eval_batches = 2 * scale.eval_batches;
  }
  if (scale.steps > 0) {
    config.steps = scale.steps;
    config.warmup = scale.steps / 10;
    config.eval_interval = config.checkpoint_interval = std::max<int64_t>(1, scale.steps / 10);
  }
}

uint64_t fnv1a(const std::string& text) {
  uint64_t hash = 14695981039346656037u;
  for (const unsigned char c : text) hash = (hash ^ c) * 1099511628211u;
  return hash;
}

}  // namespace

bool Experiment::is_own() const {
  return std::ranges::find(own_experiments(), name, &Experiment::name) != own_experiments().end();
}

const Arm& Experiment::arm(const std::string& wanted) const { return find(arms, wanted, "arm"); }
const Column& Experiment::column(const std::string& wanted) const {
  return find(columns, wanted, "column");
}

std::vector<int64_t> Scale::seeds(const Experiment& experiment) const {
  if (!chosen_seeds.empty()) return chosen_seeds;
  std::vector<int64_t> all = {42, 123, 456};  // those of the paper
  if (!all_seeds) all.resize(static_cast<std::size_t>(experiment.quick_seeds));
  return all;
}

Scale paper_scale() { return {}; }

Scale quick_scale() {
  return {.name = "quick",
          .width_divisor = 2,  // states have up to 64 values: a smaller width loses some
          .depth_divisor = 3,
          .gyroscope_sequences = 1000,
          .train_sequences = 500,
          .validation_sequences = 200,
          .length = 33,
          .steps = 300,
          .batch = 16,
          .eval_batches = 5,
          .all_seeds = false,
          .reflection_samples = {10, 100, 500},
          .reflection_seeds = {42},
          .norms = {.random_length = 32, .rollouts = 10, .rollout_steps = 1000, .window = 16}};
}

Scale scale_from(const std::string& name) {
  require(name == "quick" || name == "paper", "reproduce", "scale must be quick or paper, got '{}'",
          name);
  return name == "quick" ? quick_scale() : paper_scale();
}

TrainConfig run_config(const Column& column, const Arm& arm, int64_t seed, const Scale& scale,
                       const Hardware& hardware) {
  TrainConfig config;
  auto keys = arm.config;
  keys.update(column.config);
  if (const auto here = arm.at.find(column.name); here != arm.at.end()) keys.update(here->second);
  config.read(keys, arm.name);
  config.seed = seed;
  config.device = hardware.device;
  config.precision = hardware.precision;
  config.complete();  // a default that is given and one that is omitted are the same run
  shrink(config, scale);
  if (config.device == "cuda" && !keys.contains("checkpoint_interval"))
    config.checkpoint_interval = config.steps;  // a run takes seconds
  return config;
}

std::string run_name(const TrainConfig& config) {
  auto keys = config.write();
  // A prepared text is the same in any folder: results are copied between machines.
  if (config.task.name == "text")
    keys["data"] = std::filesystem::path(keys["data"].get<std::string>()).filename().string();
  // Options at their default are not part of the name, so runs keep their names when an option is
  // added.
  TrainConfig plain;
  plain.read({{"task", config.task.name}, {"model", config.model.label()}}, "run_name");
  const auto defaults = plain.write();
  for (const auto& [key, value] : defaults.items())
    if (keys.contains(key) && keys[key] == value) keys.erase(key);
  return fmt::format("{}-{}-{:08x}-seed{}", config.task.name, config.model.label(),
                     static_cast<uint32_t>(fnv1a(keys.dump())), config.seed);
}

void require_same_defaults(const std::string& run_folder) {
  const auto file = std::filesystem::path(run_folder) / "config.json";
  if (!std::filesystem::exists(file)) return;  // only results were copied
  TrainConfig config;
  config.read(parse_json(read_text_file(file), file.string()), file.string());
  require(run_name(config) == file.parent_path().filename(), file.string(),
          "this run was made when options had other defaults; move its folder away to train it "
          "again");
}

}  // namespace geores
