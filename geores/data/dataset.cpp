#include "geores/data/dataset.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "geores/base/error.h"
#include "geores/data/folder.h"
#include "geores/data/tasks.h"
#include "geores/storage/state_file.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

// What is drawn and cached: whole trajectories (N, length, width), or (N, length) ids.
struct States {
  Tensor train, validation;
  Tensor validation_theta;  // undefined where there is none
};

bool draws_theta(const TaskConfig& recipe) { return recipe.task == "gyroscope"; }

Tensor to_states(const Trajectories& drawn, bool tokens) {
  auto states = torch::empty({drawn.count, drawn.length, drawn.width}, torch::kFloat32);
  std::copy(drawn.values.begin(), drawn.values.end(), states.data_ptr<float>());
  return tokens ? states.squeeze(2).to(torch::kInt64) : states;
}

States generate(const Task& task, const TaskConfig& recipe) {
  NumpyRandom random(static_cast<uint32_t>(recipe.data_seed));
  States states;
  const bool tokens = recipe.vocabulary > 0;
  states.train = to_states(task.draw(random, recipe.train_sequences, recipe), tokens);
  if (task.validation_seed != nullptr)
    random = NumpyRandom(static_cast<uint32_t>(task.validation_seed(recipe.data_seed)));
  const auto validation = task.draw(random, recipe.validation_sequences, recipe);
  states.validation = to_states(validation, tokens);
  if (draws_theta(recipe)) states.validation_theta = torch::tensor(validation.theta);
  return states;
}

// Grows when the same recipe begins to mean other numbers: older files are then replaced.
constexpr int generation = 1;

std::string recipe_text(TaskConfig recipe) {
  auto json = recipe.fields().write();
  json["generation"] = generation;
  return json.dump();
}

// One file per recipe, so that runs with different recipes do not replace each other's data.
fs::path cache_path(const std::string& cache, const TaskConfig& recipe) {
  auto name = fmt::format("{}-{}-{}-{}-seed{}", recipe.task, recipe.train_sequences,
                          recipe.validation_sequences, recipe.length, recipe.data_seed);
  if (recipe.theta != 0) name += fmt::format("-theta{}", recipe.theta);
  if (recipe.vocabulary != 0) name += fmt::format("-vocabulary{}", recipe.vocabulary);
  return fs::path(cache) / (name + ".safetensors");
}

// Nothing where there is no usable file: missing, broken, or of another recipe.
std::optional<States> read_cache(const fs::path& path, const Task& task, const TaskConfig& recipe) {
  const auto read = [&](const Safetensors& file, const char* name, std::vector<int64_t> shape) {
    auto tensor = to_tensor(file.at(name));
    const auto dtype = recipe.vocabulary > 0 ? torch::kInt64 : torch::kFloat32;
    require(tensor.sizes() == c10::IntArrayRef(shape) && tensor.scalar_type() == dtype,
            path.string(), "'{}' is not of this recipe", name);
    return tensor;
  };
  const auto shape = [&](int64_t count) {
    std::vector<int64_t> sizes{count, recipe.length};
    if (recipe.vocabulary == 0) sizes.push_back(task.width);
    return sizes;
  };
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  try {
    const auto file = Safetensors::load(path);
    const auto found = file.metadata().find("recipe");
    if (found == file.metadata().end() || found->second != recipe_text(recipe)) return std::nullopt;
    States states;
    states.train = read(file, "train", shape(recipe.train_sequences));
    states.validation = read(file, "validation", shape(recipe.validation_sequences));
    if (draws_theta(recipe))
      states.validation_theta = read(file, "validation_theta", {recipe.validation_sequences});
    return states;
  } catch (const Error&) {
    return std::nullopt;  // it can be drawn again
  }
}

void write_cache(const fs::path& path, const States& states, const TaskConfig& recipe) {
  std::error_code problem;
  fs::create_directories(path.parent_path(), problem);
  require(!problem, path.parent_path().string(), "cannot be made: {}", problem.message());
  SafetensorsWriter writer;
  writer.metadata("recipe", recipe_text(recipe));
  add_tensor(writer, "train", states.train);
  add_tensor(writer, "validation", states.validation);
  if (states.validation_theta.defined())
    add_tensor(writer, "validation_theta", states.validation_theta);
  writer.save(path);
}

Tensor inputs(const Tensor& states) { return states.narrow(1, 0, states.size(1) - 1).contiguous(); }

Tensor targets(const Tensor& states, bool tokens) {
  auto next = states.narrow(1, 1, states.size(1) - 1).contiguous();
  // Copy: a_2 .. a_m cannot be known.
  if (tokens) next.narrow(1, 0, states.size(1) / 2 - 1).fill_(-1);
  return next;
}

}  // namespace

Dataset load_dataset(const TaskConfig& config, const std::string& cache) {
  const auto recipe = recipe_of(config);
  const auto& task = find_task(recipe.task);
  if (task.draw == nullptr) return load_folder(recipe);

  std::optional<States> states;
  if (!cache.empty()) states = read_cache(cache_path(cache, recipe), task, recipe);
  if (!states) {
    states = generate(task, recipe);
    if (!cache.empty()) write_cache(cache_path(cache, recipe), *states, recipe);
  }
  Dataset data;
  data.task = recipe.task;
  data.vocabulary = recipe.vocabulary;
  data.train_x = inputs(states->train);
  data.train_y = targets(states->train, data.tokens());
  states->train.reset();
  data.validation_x = inputs(states->validation);
  data.validation_y = targets(states->validation, data.tokens());
  data.validation_theta = states->validation_theta;
  return data;
}

}  // namespace geores
