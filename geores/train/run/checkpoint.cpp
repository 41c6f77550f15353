#include "geores/train/run/checkpoint.h"

#include <bit>
#include <cmath>
#include <filesystem>
#include <utility>

#include "geores/base/error.h"
#include "geores/storage/state_file.h"
#include "geores/train/run/checkpoint_files.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

fs::path newest(const std::string& folder) { return fs::path(folder) / "checkpoint.safetensors"; }
fs::path previous(const std::string& folder) {
  return fs::path(folder) / "checkpoint.previous.safetensors";
}

// Counts of steps, the optimiser's and the run's, and the best evaluation and the last loss as their
// bits: the best one is compared with later evaluations, so every bit counts.
Tensor counts_of(const RunPosition& position, int64_t optimizer_steps) {
  return torch::tensor({position.step, optimizer_steps, position.best_step,
                        std::bit_cast<int64_t>(position.best_validation),
                        std::bit_cast<int64_t>(position.train_loss)},
                       torch::kInt64);
}

Tensor counts_of_step(const Tensor& step) {
  const auto steps = step.item<int64_t>();
  return counts_of({.step = steps}, steps);
}

void load_from(const fs::path& path, Model& model, TrainingStep& training, RunPosition& position) {
  const auto file = Safetensors::load(path);
  const auto where = path.string();
  const auto read = [&](const std::string& name, const Tensor& like) {
    const auto tensor = to_tensor(file.at(name));
    const auto type = like.scalar_type(), found = tensor.scalar_type();
    const bool shortened = type == torch::kFloat32 && found == torch::kBFloat16;
    require(tensor.sizes() == like.sizes() && (found == type || shortened), where,
            "tensor '{}' does not fit this run", name);
    return tensor;
  };
  auto& optimizer = training.optimizer();
  const auto first = read("optimizer/first_moment", optimizer.first_moment());
  const auto second = read("optimizer/second_moment", optimizer.second_moment());
  // Runs on puzzles once stored their step alone.
  const auto counts = file.contains("position")
                          ? read("position", torch::zeros({5}, torch::kInt64))
                          : counts_of_step(read("step", torch::zeros({1}, torch::kInt64)));
  const auto count = [&](int64_t i) { return counts[i].item<int64_t>(); };
  const RunPosition found{.step = count(0),
                          .best_step = count(2),
                          .best_validation = std::bit_cast<double>(count(3)),
                          .train_loss = std::bit_cast<double>(count(4))};
  require(found.step >= 0 && count(1) >= 0 && found.best_step >= -1 &&
              found.best_step <= found.step && !std::isnan(found.best_validation) &&
              std::isfinite(found.best_validation) == (found.best_step >= 0),
          where, "its position is not that of a run");
  const auto average =
      training.average().defined() ? read("average", training.average()) : Tensor();
  std::vector<Tensor> carried;
  for (const auto& [name, tensor] : training.carry().all())
    carried.push_back(read("carry/" + name, tensor));
  load_state(model, file, where, "model/");
  const torch::NoGradGuard no_grad;
  optimizer.first_moment().copy_(first);
  optimizer.second_moment().copy_(second);
  if (average.defined()) training.average().copy_(average);
  for (size_t i = 0; i < carried.size(); ++i)
    training.carry().set(training.carry().all()[i].first, carried[i]);
  optimizer.steps() = count(1);
  require(is_finite(training), where, "holds NaN or infinite weights");
  position = found;
}

}  // namespace

bool is_finite(TrainingStep& training) {
  auto& optimizer = training.optimizer();
  for (const auto& tensor :
       {training.parameters().values(), optimizer.first_moment(), optimizer.second_moment()})
    if (!torch::isfinite(tensor).all().item<bool>()) return false;
  return true;
}

void save_checkpoint(const std::string& folder, const Model& model, TrainingStep& training,
                     const RunPosition& position, bool keep_newest) {
  SafetensorsWriter writer;
  writer.add_checksum();
  add_state(writer, model, "model/");
  add_tensor(writer, "optimizer/first_moment", training.optimizer().first_moment());
  add_tensor(writer, "optimizer/second_moment", training.optimizer().second_moment());
  if (training.average().defined()) add_tensor(writer, "average", training.average());
  // A carry may be by far the largest part; a state in bfloat16 needs half of its bytes.
  for (const auto& [name, tensor] : training.carry().all())
    add_tensor_in_fewest_bytes(writer, "carry/" + name, tensor);
  add_tensor(writer, "position", counts_of(position, training.optimizer().steps()));
  write_checkpoint(writer, newest(folder), previous(folder), keep_newest);
}

FoundCheckpoint load_checkpoint(const std::string& folder, Model& model, TrainingStep& training,
                                RunPosition& position,
                                const std::function<void(const std::string&)>& notice) {
  std::string problem;
  for (const auto& [path, which] : {std::pair(newest(folder), FoundCheckpoint::newest),
                                    std::pair(previous(folder), FoundCheckpoint::previous)}) {
    if (!fs::exists(path)) continue;
    try {
      load_from(path, model, training, position);
      if (!problem.empty())
        notice(problem + "; continuing from the checkpoint before it, at step " +
               std::to_string(position.step));
      return which;
    } catch (const Error& error) {
      if (!notice) throw;
      problem = error.what();
    }
  }
  if (!problem.empty()) throw Error(problem);
  return FoundCheckpoint::none;
}

}  // namespace geores
