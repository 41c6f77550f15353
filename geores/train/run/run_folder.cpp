#include "geores/train/run/run_folder.h"

#include <charconv>
#include <filesystem>
#include <limits>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"
#include "geores/data/tasks/puzzles.h"
#include "geores/storage/state_file.h"
#include "geores/train/run/starting_folder.h"

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

// A relative data folder depends on the working directory, which may be another one when the run is
// read.
nlohmann::json with_absolute_data(nlohmann::json config) {
  if (const auto data = config.find("data"); data != config.end() && *data != "")
    *data = fs::absolute(data->get<std::string>()).string();
  return config;
}

// The origin of the data that a run was trained on.
nlohmann::json origin_of_run(const fs::path& folder) {
  const auto read = [&](const char* name) {
    const auto file = (folder / name).string();
    return fs::exists(file) ? parse_json(read_text_file(file), file) : nlohmann::json::object();
  };
  const auto built = read("model.json"), config = read("config.json");
  if (!built.is_object()) return nullptr;
  auto origin = built.value("origin", nlohmann::json::object());
  // Runs on puzzles once had their fingerprint among the options.
  if (config.is_object() && config.contains(kDataFingerprint))
    origin[kDataFingerprint] = config[kDataFingerprint];
  return origin;
}

SafetensorsWriter weights_of(const Model& model, int64_t step) {
  SafetensorsWriter writer;
  writer.metadata("step", std::to_string(step));
  writer.add_checksum();
  add_state(writer, model);
  return writer;
}

int64_t step_in(const std::string& text, const std::string& where) {
  int64_t step = -1;
  const auto end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, step);
  require(problem == std::errc() && stopped == end && step >= 0, where,
          "metadata 'step' is not a number of steps: {}", quote(text));
  return step;
}

}  // namespace

RunFiles::RunFiles(const RunFolder& folder, const TrainConfig& config, const Catalogue& catalogue,
                   const InputShape& data, const DataOrigin& origin, Model& model,
                   TrainingStep& training, const Notice& notice)
    : folder_(folder), notice_(notice ? notice : [](const std::string&) {}) {
  if (in_memory()) return;
  open_folder();
  const auto wanted = with_absolute_data(config.write(catalogue.models));
  bool data_moved = false;
  if (folder.resume) {
    require(fs::exists(path("config.json")), "train", "{} holds no run to resume", folder_.path);
    const auto before =
        with_absolute_data(read_run_config(folder_.path, catalogue).write(catalogue.models));
    require_same(before, wanted);
    data_moved = before.value("data", "") != wanted.value("data", "");
    require_checkpoint(folder.path);
    require_same_origin(origin);
  } else {
    require(folder_.overwrite || !fs::exists(path("config.json")) || !has_checkpoint(folder.path),
            "train",
            "{} already holds a run; continue it with --resume or replace it with --overwrite",
            folder_.path);
    make_starting_folder(folder.path);
    starting_ = true;
  }
  if (!folder.resume || data_moved)
    write_file_atomically(path("config.json"), wanted.dump(2) + "\n");
  for (const auto& companion : origin.companions)
    if (!folder.resume && fs::exists(companion))
      write_file_atomically(path(fs::path(companion).filename().c_str()), read_file(companion));
  auto built = model.description();
  built.update({{"kind", config.model.kind},
                {"parameters", parameter_count(model)},
                {"data", data.to_json()}});
  if (!origin.facts.empty()) built["origin"] = origin.facts;
  write_file_atomically(path("model.json"), built.dump(2) + "\n");
  if (folder.resume) continue_run(config, model, training);
  metrics_ = MetricsLog(path("metrics.jsonl"), position_.step);
}

RunFiles::~RunFiles() {
  if (starting_) remove_starting_folder(folder_.path);
}

fs::path RunFiles::folder() const {
  return starting_ ? starting_folder(folder_.path) : fs::path(folder_.path);
}

std::string RunFiles::path(const char* name) const { return (folder() / name).string(); }

void RunFiles::open_folder() { lock_ = take_run_folder(folder_.path, folder_.resume, notice_); }

void RunFiles::require_same_origin(const DataOrigin& origin) const {
  const auto all = origin_of_run(folder());
  for (const auto& [key, before] : all.items())
    require(origin.facts.contains(key) && origin.facts[key] == before, "train",
            "cannot resume {}: the data's '{}' was {} and now is {}", folder_.path, key,
            before.dump(), origin.facts.value(key, nlohmann::json()).dump());
}

void RunFiles::require_same(const nlohmann::json& before, const nlohmann::json& wanted) const {
  // These are compared, too: the folder may have moved.
  const auto origin = origin_of_run(folder());
  const bool knows_data = origin.contains("train_ids_sha256") || origin.contains(kDataFingerprint);
  for (const auto& [key, value] : wanted.items())
    require((key == "data" && knows_data) || (before.contains(key) && before[key] == value),
            "train", "cannot resume {} with another '{}': the run has {}, asked for {}",
            folder_.path, key, before.value(key, nlohmann::json()).dump(), value.dump());
}

void RunFiles::continue_run(const TrainConfig& config, Model& model, TrainingStep& training) {
  // The best weights are validated by loading them into the model; the checkpoint then sets all of
  // it.
  std::string problem;
  try {
    load_best(model);
  } catch (const Error& error) {
    problem = error.what();
  }
  newest_is_good_ =
      load_checkpoint(folder_.path, model, training, position_, notice_) == FoundCheckpoint::newest;
  require(position_.step <= config.steps, folder_.path,
          "its checkpoint is of step {}, but the run has only {}", position_.step, config.steps);
  if (problem.empty() || position_.best_step < 0) return;
  notice_(
      fmt::format("{}; the weights of the best evaluation, at step {}, are lost: those of the "
                  "evaluations to come count",
                  problem, position_.best_step));
  position_.best_step = -1;
  position_.best_validation = std::numeric_limits<double>::infinity();
  std::error_code ignored;
  fs::remove(path("best.safetensors"), ignored);
}

void RunFiles::save_checkpoint(const Model& model, TrainingStep& training,
                               const RunPosition& position) {
  if (in_memory()) return;
  geores::save_checkpoint(folder().string(), model, training, position, newest_is_good_);
  newest_is_good_ = true;
  if (!starting_) return;
  replace_run(folder_.path);
  starting_ = false;
}

void RunFiles::write_result(const nlohmann::json& result) {
  if (in_memory()) return;
  if (starting_) {  // it diverged before its first checkpoint
    if (has_checkpoint(folder_.path)) {
      notice_(fmt::format("the run that was in {} is still there", folder_.path));
      return;
    }
    replace_run(folder_.path);
    starting_ = false;
  }
  write_file_atomically(path("result.json"), result.dump(2) + "\n");
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

bool holds_run(const std::string& path) {
  if (is_being_replaced(path)) {
    const FolderLock lock(path);
    finish_replacing(path);
  }
  return fs::exists(fs::path(path) / "config.json");
}

bool can_resume(const std::string& path) { return holds_run(path) && has_checkpoint(path); }

TrainConfig read_run_config(const std::string& path, const Catalogue& catalogue) {
  const auto file = (fs::path(path) / "config.json").string();
  require(fs::exists(file), "run", "{} holds no run (no config.json)", path);
  TrainConfig config;
  config.read(parse_json(read_text_file(file), file), file, catalogue.models);
  const auto& kind = find_model_kind(catalogue.models, config.model.kind);
  if (kind.from_earlier_run) config.model.options = kind.from_earlier_run(config.model.options);
  return config;
}

LoadedRun load_run(const std::string& path, const std::string& cache, const Catalogue& catalogue) {
  LoadedRun run;
  run.config = read_run_config(path, catalogue);
  run.model = make_model(run.config.model, shape_of_run(path, run.config, cache), catalogue.models);
  run.origin = origin_of_run(path);
  const auto best = fs::path(path) / "best.safetensors";
  if (fs::exists(best)) {
    const auto file = Safetensors::load(best);
    load_state(*run.model, file, best.string());
    if (const auto step = file.metadata().find("step"); step != file.metadata().end())
      run.step = step_in(step->second, best.string());
    return run;
  }
  TrainingStep training(*run.model, optimizer_options(run.config),
                        run.model->initial_carry(run.config.batch));
  RunPosition position;
  require(load_checkpoint(path, *run.model, training, position, {}) != FoundCheckpoint::none, "run",
          "{} has no weights yet", path);
  run.step = position.step;
  const torch::NoGradGuard no_grad;
  if (training.average().defined()) training.parameters().values().copy_(training.average());
  return run;
}

}  // namespace geores
