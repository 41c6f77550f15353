#include "geores/data/generated.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "geores/base/error.h"
#include "geores/storage/state_file.h"

namespace geores {
namespace {

namespace fs = std::filesystem;

constexpr double largest_seed = 2147483647;  // near_pi adds 1000, which must stay below 2^32
constexpr double most_numbers = 2147483648;

// The generated and cached data: whole trajectories (N, length, width), or (N, length) ids.
struct States {
  Tensor train, validation;
  Tensor validation_theta;  // undefined where there is none
};

Tensor to_states(const Trajectories& drawn, bool tokens) {
  auto states = torch::empty({drawn.count, drawn.length, drawn.width}, torch::kFloat32);
  std::copy(drawn.values.begin(), drawn.values.end(), states.data_ptr<float>());
  return tokens ? states.squeeze(2).to(torch::kInt64) : states;
}

States draw_states(const Recipe& recipe) {
  NumpyRandom random(static_cast<uint32_t>(recipe.sizes.data_seed));
  States states;
  const bool tokens = recipe.vocabulary > 0;
  states.train = to_states(recipe.draw(random, recipe.sizes.train_sequences), tokens);
  if (recipe.validation_seed) random = NumpyRandom(static_cast<uint32_t>(*recipe.validation_seed));
  const auto validation = recipe.draw(random, recipe.sizes.validation_sequences);
  states.validation = to_states(validation, tokens);
  if (recipe.has_theta) states.validation_theta = torch::tensor(validation.theta);
  return states;
}

// Grows when the same recipe begins to mean other numbers: older files are then replaced.
constexpr int generation = 1;

std::string recipe_text(const Recipe& recipe) {
  auto json = recipe.options;
  json["task"] = recipe.task;
  json["generation"] = generation;
  return json.dump();
}

// One file per recipe, so that runs with different recipes do not replace each other's data.
fs::path cache_path(const std::string& cache, const Recipe& recipe) {
  const auto& sizes = recipe.sizes;
  auto name = fmt::format("{}-{}-{}-{}-seed{}", recipe.task, sizes.train_sequences,
                          sizes.validation_sequences, sizes.length, sizes.data_seed);
  auto common = sizes;
  const auto fields = common.fields();
  for (const auto& [key, value] : recipe.options.items())
    if (std::ranges::find(fields.all(), key, &Field::key) == fields.all().end())
      name += fmt::format("-{}{}", key, value.dump());
  return fs::path(cache) / (name + ".safetensors");
}

// Nothing where there is no usable file: missing, broken, or of another recipe.
std::optional<States> read_cache(const fs::path& path, const Recipe& recipe) {
  const auto read = [&](const Safetensors& file, const char* name, std::vector<int64_t> shape) {
    auto tensor = to_tensor(file.at(name));
    const auto dtype = recipe.vocabulary > 0 && std::string(name) != "validation_theta"
                           ? torch::kInt64
                           : torch::kFloat32;
    require(tensor.sizes() == c10::IntArrayRef(shape) && tensor.scalar_type() == dtype,
            path.string(), "'{}' is not of this recipe", name);
    return tensor;
  };
  const auto shape = [&](int64_t count) {
    std::vector<int64_t> sizes{count, recipe.sizes.length};
    if (recipe.vocabulary == 0) sizes.push_back(recipe.width);
    return sizes;
  };
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  try {
    const auto file = Safetensors::load(path);
    const auto found = file.metadata().find("recipe");
    if (found == file.metadata().end() || found->second != recipe_text(recipe)) return std::nullopt;
    States states;
    states.train = read(file, "train", shape(recipe.sizes.train_sequences));
    states.validation = read(file, "validation", shape(recipe.sizes.validation_sequences));
    if (recipe.has_theta)
      states.validation_theta = read(file, "validation_theta", {recipe.sizes.validation_sequences});
    return states;
  } catch (const Error&) {
    return std::nullopt;  // it can be drawn again
  }
}

void write_cache(const fs::path& path, const States& states, const Recipe& recipe) {
  std::error_code problem;
  fs::create_directories(path.parent_path(), problem);
  require(!problem, path.parent_path().string(), "cannot be made: {}", problem.message());
  SafetensorsWriter writer;
  writer.metadata("recipe", recipe_text(recipe));
  writer.add_checksum();
  add_tensor(writer, "train", states.train);
  add_tensor(writer, "validation", states.validation);
  if (states.validation_theta.defined())
    add_tensor(writer, "validation_theta", states.validation_theta);
  writer.save(path);
}

Tensor inputs(const Tensor& states) { return states.narrow(1, 0, states.size(1) - 1).contiguous(); }

Tensor targets(const Tensor& states, const Recipe& recipe) {
  auto next = states.narrow(1, 1, states.size(1) - 1).contiguous();
  if (recipe.mask) recipe.mask(next);
  return next;
}

void check_sizes(const Recipe& recipe) {
  const auto& sizes = recipe.sizes;
  for (const auto& [key, count] : {std::pair("train_sequences", sizes.train_sequences),
                                   std::pair("validation_sequences", sizes.validation_sequences)}) {
    const auto numbers = static_cast<double>(count) * static_cast<double>(sizes.length) *
                         static_cast<double>(recipe.width);
    require(numbers <= most_numbers, recipe.task,
            "{} '{}' of length {} and width {} are more than 2^31 numbers", count, key,
            sizes.length, recipe.width);
  }
}

}  // namespace

Fields GeneratedOptions::fields() {
  return Fields()
      .add("train_sequences", train_sequences, "sequences to learn from", {.min = 1})
      .add("validation_sequences", validation_sequences, "sequences to judge by", {.min = 1})
      .add("length", length, "states per trajectory, one less to learn from", {.min = 2})
      .add("data_seed", data_seed, "seed of the generated data", {.min = 0, .max = largest_seed});
}

Trajectories::Trajectories(int64_t count_, int64_t length_, int64_t width_)
    : count(count_), length(length_), width(width_) {
  values.reserve(static_cast<std::size_t>(count * length * width));
}

void Trajectories::append(const std::vector<double>& state) {
  for (const double value : state) values.push_back(static_cast<float>(value));
}

std::vector<double> gaussian(NumpyRandom& random, int64_t width) {
  std::vector<double> vector(static_cast<std::size_t>(width));
  for (double& value : vector) value = random.randn();
  return vector;
}

std::vector<double> unit_vector(NumpyRandom& random, int64_t width) {
  auto vector = gaussian(random, width);
  double square = 0;
  for (const double value : vector) square += value * value;
  for (double& value : vector) value /= std::sqrt(square);
  return vector;
}

void rotate(double& a, double& b, double cosine, double sine) {
  const auto turned = cosine * a - sine * b;
  b = sine * a + cosine * b;
  a = turned;
}

Dataset load_generated(const Recipe& recipe, const std::string& cache) {
  check_sizes(recipe);
  std::optional<States> states;
  if (!cache.empty()) states = read_cache(cache_path(cache, recipe), recipe);
  if (!states) {
    states = draw_states(recipe);
    if (!cache.empty()) write_cache(cache_path(cache, recipe), *states, recipe);
  }
  Dataset data;
  data.task = recipe.task;
  data.vocabulary = recipe.vocabulary;
  data.train_x = inputs(states->train);
  data.train_y = targets(states->train, recipe);
  states->train.reset();
  data.validation_x = inputs(states->validation);
  data.validation_y = targets(states->validation, recipe);
  data.validation_theta = states->validation_theta;
  return data;
}

}  // namespace geores
