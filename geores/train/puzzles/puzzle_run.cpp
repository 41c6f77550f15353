#include "geores/train/puzzles/puzzle_run.h"

#include <filesystem>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"
#include "geores/storage/state_file.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFingerprint = "data_fingerprint";
constexpr const char* kNewest = "checkpoint.safetensors";
constexpr const char* kPrevious = "checkpoint.previous.safetensors";

nlohmann::json read_object(const std::string& file) {
  return parse_json(read_text_file(file), file);
}

std::string config_file(const std::string& path) {
  return (fs::path(path) / "config.json").string();
}

// What a checkpoint holds besides the model, by name.
std::vector<std::pair<std::string, Tensor>> training_state(RecursiveStep& training) {
  std::vector<std::pair<std::string, Tensor>> all = {
      {"optimizer/first_moment", training.optimizer().first_moment()},
      {"optimizer/second_moment", training.optimizer().second_moment()}};
  if (training.average().defined()) all.emplace_back("average", training.average());
  for (const auto& [name, tensor] : training.carry().all())
    all.emplace_back("carry/" + name, tensor);
  return all;
}

int64_t load_from(const std::string& path, Recursive& model, RecursiveStep& training) {
  const auto file = Safetensors::load(path);
  const auto read = [&](const std::string& name, const Tensor& like) {
    const auto tensor = to_tensor(file.at(name));
    require(tensor.sizes() == like.sizes() && tensor.scalar_type() == like.scalar_type(), path,
            "tensor '{}' does not fit this run", name);
    return tensor;
  };
  const auto step = read("step", torch::zeros({1}, torch::kInt64)).item<int64_t>();
  const auto state = training_state(training);
  std::vector<Tensor> values;
  for (const auto& [name, tensor] : state) values.push_back(read(name, tensor));
  load_state(model, file, path, "model/");
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < state.size(); ++i) {
    auto to = state[i].second;
    to.copy_(values[i]);
  }
  return step;
}

// 0 if there is none.
int64_t load_puzzle_checkpoint(const std::string& folder, Recursive& model, RecursiveStep& training,
                               const Notice& notice) {
  std::string problem;
  for (const auto* name : {kNewest, kPrevious}) {
    const auto path = (fs::path(folder) / name).string();
    if (!fs::exists(path)) continue;
    try {
      const auto step = load_from(path, model, training);
      if (!problem.empty() && notice)
        notice(
            fmt::format("{}; continuing from the checkpoint before it, at step {}", problem, step));
      return step;
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  if (!problem.empty()) throw Error(problem);
  return 0;
}

}  // namespace

PuzzleFiles::PuzzleFiles(const RunFolder& folder, const PuzzleConfig& config,
                         const std::string& fingerprint)
    : folder_(folder) {
  if (!in_memory()) prepare(config, fingerprint);
}

std::string PuzzleFiles::path(const char* name) const {
  return (fs::path(folder_.path) / name).string();
}

void PuzzleFiles::prepare(const PuzzleConfig& config, const std::string& fingerprint) {
  auto now = config.write();
  now[kFingerprint] = fingerprint;
  const auto exists = fs::exists(path("config.json"));
  if (folder_.resume) {
    require(exists, "train", "{} holds no run to resume", folder_.path);
    const auto before = read_object(path("config.json"));
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
    for (const auto* name : {"result.json", "metrics.jsonl", kNewest, kPrevious, "model.json"})
      fs::remove(path(name), error);
  fs::create_directories(folder_.path, error);
  require(!error, "train", "cannot create {}: {}", folder_.path, error.message());
  write_file_atomically(path("config.json"), now.dump(2) + "\n");
}

int64_t PuzzleFiles::resume(Recursive& model, RecursiveStep& training, const Notice& notice) {
  if (in_memory()) return 0;
  const auto step =
      folder_.resume ? load_puzzle_checkpoint(folder_.path, model, training, notice) : 0;
  metrics_ = MetricsLog(path("metrics.jsonl"), step);
  return step;
}

void PuzzleFiles::write_model(const nlohmann::json& description) {
  if (!in_memory()) write_file_atomically(path("model.json"), description.dump(2) + "\n");
}

void PuzzleFiles::save_checkpoint(const Recursive& model, RecursiveStep& training, int64_t step) {
  if (in_memory()) return;
  SafetensorsWriter writer;
  add_state(writer, model, "model/");
  for (const auto& [name, tensor] : training_state(training)) add_tensor(writer, name, tensor);
  add_tensor(writer, "step", torch::full({1}, step, torch::kInt64));
  const auto had_one = fs::exists(path(kNewest));
  if (had_one) fs::rename(path(kNewest), path(kPrevious));
  try {
    writer.save(path(kNewest));
  } catch (...) {
    std::error_code ignored;
    if (had_one) fs::rename(path(kPrevious), path(kNewest), ignored);
    throw;
  }
}

void PuzzleFiles::write_result(const nlohmann::json& result) {
  if (!in_memory()) write_file_atomically(path("result.json"), result.dump(2) + "\n");
}

PuzzleConfig read_puzzle_config(const std::string& path) {
  const auto file = config_file(path);
  require(fs::exists(file), "run", "{} holds no run (no config.json)", path);
  auto object = read_object(file);
  require(is_puzzle_config(object), "run", "{} holds no run on puzzles", path);
  object.erase(kFingerprint);
  PuzzleConfig config;
  config.read(object, file);
  return config;
}

bool is_puzzle_run(const std::string& path) {
  const auto file = config_file(path);
  return fs::exists(file) && is_puzzle_config(read_object(file));
}

LoadedPuzzleRun load_puzzle_run(const std::string& path, const std::string& device) {
  LoadedPuzzleRun run{.config = read_puzzle_config(path), .model = nullptr, .step = 0};
  const auto file = (fs::path(path) / "model.json").string();
  require(fs::exists(file), "run", "{} has no model.json", path);
  const auto built = read_object(file);
  require(built.is_object() && built.contains("data"), file, "says nothing of the data");
  run.model =
      std::make_shared<Recursive>(run.config.model, InputShape::from_json(built["data"], file));
  run.model->to(device == "cuda" ? torch::kCUDA : torch::kCPU);
  RecursiveStep training(*run.model, run.config.step_options(),
                         run.model->initial_carry(run.config.batch));
  require(fs::exists(fs::path(path) / kNewest) || fs::exists(fs::path(path) / kPrevious), "run",
          "{} has no weights yet", path);
  run.step = load_puzzle_checkpoint(path, *run.model, training, {});
  const torch::NoGradGuard no_grad;
  if (training.average().defined()) training.parameters().values().copy_(training.average());
  return run;
}

}  // namespace geores
