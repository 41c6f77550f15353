#include "geores/data/tasks.h"

#include "geores/base/error.h"
#include "geores/base/nearest.h"

namespace geores {
namespace {

constexpr int64_t reflection_validation_seed = 999;
constexpr double largest_seed = 2147483647;  // near_pi adds 1000, which must stay below 2^32
constexpr double most_numbers = 2147483648;
constexpr double most_tokens = 65536;

std::vector<Task> all_tasks() {
  std::vector<Task> all;
  all.push_back({.name = "gyroscope",
                 .summary = "a unit vector of R^16 turns in a random plane by a hidden angle",
                 .width = 16,
                 .defaults = {.train_sequences = 9000, .validation_sequences = 1000, .length = 256},
                 .draw = [](NumpyRandom& random, int64_t count, const TaskConfig& recipe) {
                   return gyroscope_trajectories(random, count, recipe.length);
                 }});
  all.push_back(
      {.name = "stability",
       .summary = "a unit vector of R^64 that does not change, seen through noise of 1e-3",
       .width = 64,
       .defaults = {.train_sequences = 900, .validation_sequences = 100, .length = 128},
       .draw = [](NumpyRandom& random, int64_t count, const TaskConfig& recipe) {
         return stability_trajectories(random, count, recipe.length);
       }});
  const auto near_pi_validation_seed = [](int64_t data_seed) { return data_seed + 1000; };
  all.push_back({.name = "near_pi",
                 .summary = "a unit vector of R^64 turns in one plane by an angle near pi",
                 .width = 64,
                 .defaults = {.train_sequences = 1000,
                              .validation_sequences = 500,
                              .length = 128,
                              .theta = 3.10},
                 .draw =
                     [](NumpyRandom& random, int64_t count, const TaskConfig& recipe) {
                       return rotation_trajectories(random, count, recipe.length, 1, recipe.theta);
                     },
                 .validation_seed = near_pi_validation_seed});
  all.push_back({.name = "near_pi_multi",
                 .summary = "a unit vector of R^64 turns in all 32 planes by an angle near pi",
                 .width = 64,
                 .defaults = {.train_sequences = 1000,
                              .validation_sequences = 500,
                              .length = 128,
                              .theta = 3.14},
                 .draw =
                     [](NumpyRandom& random, int64_t count, const TaskConfig& recipe) {
                       return rotation_trajectories(random, count, recipe.length, 32, recipe.theta);
                     },
                 .validation_seed = near_pi_validation_seed});
  all.push_back({.name = "reflection",
                 .summary = "y = -x for Gaussian vectors of R^64, one at a time",
                 .width = 64,
                 .defaults = {.train_sequences = 500, .validation_sequences = 500, .length = 2},
                 .draw = [](NumpyRandom& random, int64_t count,
                            const TaskConfig&) { return reflection_trajectories(random, count); },
                 .validation_seed = [](int64_t) { return reflection_validation_seed; }});
  all.push_back({.name = "copy",
                 .summary = "repeat the first half of a sequence of random tokens",
                 .width = 1,
                 .defaults = {.train_sequences = 9000,
                              .validation_sequences = 1000,
                              .length = 64,
                              .vocabulary = 32},
                 .draw = [](NumpyRandom& random, int64_t count, const TaskConfig& recipe) {
                   return copy_trajectories(random, count, recipe.length, recipe.vocabulary);
                 }});
  all.push_back({.name = "folder",
                 .summary = "your own train_x.npy, train_y.npy, val_x.npy, val_y.npy (N, T, d)"});
  for (auto& task : all) task.defaults.task = task.name;
  return all;
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const auto& task : tasks()) names.push_back(task.name);
  return names;
}

template <class Number>
void take_default(Number& value, Number by_default, const char* key, const std::string& task) {
  require(value == 0 || by_default != 0, task, "'{}' is not an option of this task, got {}", key,
          value);
  if (value == 0) value = by_default;
}

void check_sizes(const TaskConfig& recipe, const Task& task) {
  require(recipe.length >= 2, task.name, "'length' must be >= 2, got {}", recipe.length);
  for (const auto& [key, count] :
       {std::pair("train_sequences", recipe.train_sequences),
        std::pair("validation_sequences", recipe.validation_sequences)}) {
    const auto numbers = static_cast<double>(count) * static_cast<double>(recipe.length) *
                         static_cast<double>(task.width);
    require(numbers <= most_numbers, task.name,
            "{} '{}' of length {} and width {} are more than 2^31 numbers", count, key,
            recipe.length, task.width);
  }
  require(task.name != "reflection" || recipe.length == 2, task.name,
          "'length' must be 2 (x and -x), got {}", recipe.length);
  require(task.name != "copy" || recipe.length % 2 == 0, task.name, "'length' must be even, got {}",
          recipe.length);
  require(task.name != "reflection" || recipe.data_seed != reflection_validation_seed, task.name,
          "'data_seed' {} is the seed of the validation sequences", recipe.data_seed);
}

}  // namespace

Fields TaskConfig::fields() {
  return Fields()
      .choice("task", task, task_names(), "what to learn")
      .add("data", data, "task folder: where train_x.npy, train_y.npy, val_x.npy and val_y.npy are")
      .add("train_sequences", train_sequences, "0: as in the paper", {.min = 0})
      .add("validation_sequences", validation_sequences, "0: as in the paper", {.min = 0})
      .add("length", length, "states per trajectory, one less to learn from; 0: as in the paper",
           {.min = 0})
      .add("data_seed", data_seed, "seed of the generated data", {.min = 0, .max = largest_seed})
      .add("theta", theta, "near_pi, near_pi_multi: angle per step; 0: as in the paper",
           {.min = 0, .max = 6.283185307179586})
      .add("vocabulary", vocabulary, "copy: number of tokens; 0: 32",
           {.min = 0, .max = most_tokens});
}

const std::vector<Task>& tasks() {
  static const auto all = all_tasks();
  return all;
}

const Task& find_task(const std::string& name) {
  for (const auto& task : tasks())
    if (task.name == name) return task;
  const auto near = nearest(name, task_names());
  if (near.empty()) fail("task", "unknown task '{}'; see `geores list`", name);
  fail("task", "unknown task '{}', did you mean '{}'?", name, near);
}

TaskConfig recipe_of(const TaskConfig& config) {
  const auto& task = find_task(config.task);
  auto recipe = config;
  // The same limits as for flags and files, here for a struct filled in by hand.
  const auto fields = recipe.fields();
  for (const auto& field : fields.all()) field.set_from_text(field.value_text(), task.name);

  if (task.draw == nullptr) {
    require(!recipe.data.empty(), task.name,
            "'data' must name the folder of train_x.npy, train_y.npy, val_x.npy and val_y.npy");
  } else {
    require(recipe.data.empty(), task.name, "'data' is not an option of this task, got '{}'",
            recipe.data);
    take_default(recipe.train_sequences, task.defaults.train_sequences, "train_sequences",
                 task.name);
    take_default(recipe.validation_sequences, task.defaults.validation_sequences,
                 "validation_sequences", task.name);
  }
  take_default(recipe.length, task.defaults.length, "length", task.name);
  take_default(recipe.theta, task.defaults.theta, "theta", task.name);
  take_default(recipe.vocabulary, task.defaults.vocabulary, "vocabulary", task.name);
  if (task.draw != nullptr) check_sizes(recipe, task);
  return recipe;
}

}  // namespace geores
