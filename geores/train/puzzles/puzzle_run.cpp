#include "geores/train/puzzles/puzzle_run.h"

#include <filesystem>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"
#include "geores/ops/run/device_named.h"
#include "geores/storage/state_file.h"
#include "geores/train/run/checkpoint_files.h"
#include "geores/train/run/starting_folder.h"

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

// The names of a checkpoint's tensors besides those of the model.
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
    const auto type = like.scalar_type();
    const auto shortened = type == torch::kFloat32 && tensor.scalar_type() == torch::kBFloat16;
    require(tensor.sizes() == like.sizes() && (tensor.scalar_type() == type || shortened), path,
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

struct FoundPuzzleCheckpoint {
  int64_t step = 0;  // 0 if there is none
  bool newest = false;
};

FoundPuzzleCheckpoint load_puzzle_checkpoint(const std::string& folder, Recursive& model,
                                             RecursiveStep& training, const Notice& notice) {
  std::string problem;
  for (const auto* name : {kNewest, kPrevious}) {
    const auto path = (fs::path(folder) / name).string();
    if (!fs::exists(path)) continue;
    try {
      const auto step = load_from(path, model, training);
      if (!problem.empty())
        notice(
            fmt::format("{}; continuing from the checkpoint before it, at step {}", problem, step));
      return {step, name == kNewest};
    } catch (const Error& error) {
      if (!notice) throw;
      problem = error.what();
    }
  }
  if (!problem.empty()) throw Error(problem);
  return {};
}

}  // namespace

PuzzleFiles::PuzzleFiles(const RunFolder& folder, const PuzzleConfig& config,
                         const std::string& fingerprint, const Notice& notice)
    : folder_(folder), notice_(notice ? notice : [](const std::string&) {}) {
  if (!in_memory()) prepare(config, fingerprint);
}

PuzzleFiles::~PuzzleFiles() {
  if (starting_) remove_starting_folder(folder_.path);
}

std::string PuzzleFiles::path(const char* name) const {
  const auto folder = starting_ ? starting_folder(folder_.path) : fs::path(folder_.path);
  return (folder / name).string();
}

void PuzzleFiles::replace_old_run() {
  if (!starting_) return;
  replace_run(folder_.path);
  starting_ = false;
}

void PuzzleFiles::prepare(const PuzzleConfig& config, const std::string& fingerprint) {
  auto now = config.write();
  now[kFingerprint] = fingerprint;
  lock_ = take_run_folder(folder_.path, folder_.resume, notice_);
  const auto exists = fs::exists(path("config.json"));
  if (folder_.resume) {
    require(exists, "train", "{} holds no run to resume", folder_.path);
    const auto before = read_object(path("config.json"));
    for (const auto& [key, value] : now.items())
      require(before.contains(key) && before[key] == value, "train",
              "cannot resume {} with another '{}': the run has {}, asked for {}", folder_.path, key,
              before.value(key, nlohmann::json()).dump(), value.dump());
    require_checkpoint(folder_.path);
    return;
  }
  require(folder_.overwrite || !exists || !has_checkpoint(folder_.path), "train",
          "{} already holds a run; continue it with --resume or replace it with --overwrite",
          folder_.path);
  make_starting_folder(folder_.path);
  starting_ = true;
  write_file_atomically(path("config.json"), now.dump(2) + "\n");
}

int64_t PuzzleFiles::resume(Recursive& model, RecursiveStep& training) {
  if (in_memory()) return 0;
  FoundPuzzleCheckpoint found;
  if (folder_.resume) found = load_puzzle_checkpoint(folder_.path, model, training, notice_);
  newest_is_good_ = found.newest;
  metrics_ = MetricsLog(path("metrics.jsonl"), found.step);
  return found.step;
}

void PuzzleFiles::write_model(const nlohmann::json& description) {
  if (!in_memory()) write_file_atomically(path("model.json"), description.dump(2) + "\n");
}

void PuzzleFiles::save_checkpoint(const Recursive& model, RecursiveStep& training, int64_t step) {
  if (in_memory()) return;
  SafetensorsWriter writer;
  writer.add_checksum();
  add_state(writer, model, "model/");
  // The states of all rows are by far the largest part at the papers' size; a bfloat16 state needs
  // half of their bytes.
  for (const auto& [name, tensor] : training_state(training))
    add_tensor_in_fewest_bytes(writer, name, tensor);
  add_tensor(writer, "step", torch::full({1}, step, torch::kInt64));
  // A damaged checkpoint does not replace a good one.
  write_checkpoint(writer, path(kNewest), path(kPrevious), newest_is_good_);
  newest_is_good_ = true;
  replace_old_run();
}

void PuzzleFiles::write_result(const nlohmann::json& result) {
  if (in_memory()) return;
  if (starting_ && has_checkpoint(folder_.path)) {  // it diverged before its first checkpoint
    notice_(fmt::format("the run that was in {} is still there", folder_.path));
    return;
  }
  replace_old_run();
  write_file_atomically(path("result.json"), result.dump(2) + "\n");
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
  return holds_run(path) && is_puzzle_config(read_object(config_file(path)));
}

LoadedPuzzleRun load_puzzle_run(const std::string& path, const std::string& device) {
  LoadedPuzzleRun run{.config = read_puzzle_config(path), .model = nullptr, .step = 0};
  run.fingerprint = read_object(config_file(path)).value(kFingerprint, "");
  const auto file = (fs::path(path) / "model.json").string();
  require(fs::exists(file), "run", "{} has no model.json", path);
  const auto built = read_object(file);
  require(built.is_object() && built.contains("data"), file, "says nothing of the data");
  run.model =
      std::make_shared<Recursive>(run.config.model, InputShape::from_json(built["data"], file));
  run.model->to(device_named(device, "puzzles"));
  RecursiveStep training(*run.model, run.config.step_options(),
                         run.model->initial_carry(run.config.batch));
  require(has_checkpoint(path), "run", "{} has no weights yet", path);
  run.step = load_puzzle_checkpoint(path, *run.model, training, {}).step;
  const torch::NoGradGuard no_grad;
  if (training.average().defined()) training.parameters().values().copy_(training.average());
  return run;
}

}  // namespace geores
