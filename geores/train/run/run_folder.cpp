#include "geores/train/run/run_folder.h"

#include <filesystem>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"
#include "geores/storage/state_file.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

// The shape of the data that a run's model was made for.
InputShape shape_of_run(const std::string& path, const TrainConfig& config,
                        const std::string& cache) {
  const auto file = (fs::path(path) / "model.json").string();
  if (!fs::exists(file)) return input_shape(load_dataset(config.task, cache));
  const auto object = parse_json(read_text_file(file), file);
  require(object.is_object() && object.contains("data"), file, "says nothing of the data");
  return InputShape::from_json(object["data"], file);
}

SafetensorsWriter weights_of(const Model& model, int64_t step) {
  SafetensorsWriter writer;
  writer.metadata("step", std::to_string(step));
  add_state(writer, model);
  return writer;
}

}  // namespace

RunFiles::RunFiles(const RunFolder& folder, const TrainConfig& config, const Catalogue& catalogue,
                   const InputShape& data, Model& model, TrainingStep& training,
                   const Notice& notice)
    : folder_(folder) {
  if (in_memory()) return;
  prepare(config, catalogue);
  auto built = model.description();
  built.update({{"kind", config.model.kind},
                {"parameters", parameter_count(model)},
                {"data", data.to_json()}});
  write_file_atomically(path("model.json"), built.dump(2) + "\n");
  if (folder.resume) load_checkpoint(folder.path, model, training, position_, notice);
  metrics_ = MetricsLog(path("metrics.jsonl"), position_.step);
}

std::string RunFiles::path(const char* name) const {
  return (fs::path(folder_.path) / name).string();
}

void RunFiles::prepare(const TrainConfig& config, const Catalogue& catalogue) {
  const auto exists = fs::exists(path("config.json"));
  if (folder_.resume) {
    require(exists, "train", "{} holds no run to resume", folder_.path);
    const auto before = read_run_config(folder_.path, catalogue).write(catalogue.models),
               now = config.write(catalogue.models);
    for (const auto& [key, value] : now.items())
      require(before.contains(key) && before[key] == value, "train",
              "cannot resume {} with another '{}': the run has {}, asked for {}", folder_.path, key,
              before.value(key, nlohmann::json()).dump(), value.dump());
    return;
  }
  require(!exists || folder_.overwrite, "train",
          "{} already holds a run; continue it with --resume or replace it with --overwrite",
          folder_.path);
  std::error_code error;
  if (exists)
    for (const auto* name : {"result.json", "metrics.jsonl", "checkpoint.safetensors",
                             "checkpoint.previous.safetensors", "best.safetensors", "model.json"})
      fs::remove(path(name), error);
  fs::create_directories(folder_.path, error);
  require(!error, "train", "cannot create {}: {}", folder_.path, error.message());
  write_file_atomically(path("config.json"), config.write(catalogue.models).dump(2) + "\n");
}

void RunFiles::save_checkpoint(const Model& model, TrainingStep& training,
                               const RunPosition& position) {
  if (!in_memory()) geores::save_checkpoint(folder_.path, model, training, position);
}

void RunFiles::write_result(const nlohmann::json& result) {
  if (!in_memory()) write_file_atomically(path("result.json"), result.dump(2) + "\n");
}

void RunFiles::keep_best(const Model& model, int64_t step) {
  const auto writer = weights_of(model, step);
  if (in_memory())
    best_ = writer.serialize();
  else
    writer.save(path("best.safetensors"));
}

void RunFiles::load_best(Model& model) const {
  const auto where = in_memory() ? std::string("best weights") : path("best.safetensors");
  load_state(model, in_memory() ? Safetensors::parse(best_, where) : Safetensors::load(where),
             where);
}

TrainConfig read_run_config(const std::string& path, const Catalogue& catalogue) {
  const auto file = (fs::path(path) / "config.json").string();
  require(fs::exists(file), "run", "{} holds no run (no config.json)", path);
  TrainConfig config;
  config.read(parse_json(read_text_file(file), file), file, catalogue.models);
  return config;
}

LoadedRun load_run(const std::string& path, const std::string& cache, const Catalogue& catalogue) {
  LoadedRun run;
  run.config = read_run_config(path, catalogue);
  run.model = make_model(run.config.model, shape_of_run(path, run.config, cache), catalogue.models);
  const auto best = fs::path(path) / "best.safetensors";
  if (fs::exists(best)) {
    const auto file = Safetensors::load(best);
    load_state(*run.model, file, best.string());
    if (const auto step = file.metadata().find("step"); step != file.metadata().end())
      run.step = std::stoll(step->second);
    return run;
  }
  TrainingStep training(*run.model, {}, run.model->initial_carry(run.config.batch));
  RunPosition position;
  require(load_checkpoint(path, *run.model, training, position, {}), "run", "{} has no weights yet",
          path);
  run.step = position.step;
  return run;
}

}  // namespace geores
