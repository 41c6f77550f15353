#include "geores/data/registry.h"

#include <algorithm>

#include "geores/base/error.h"
#include "geores/base/nearest.h"
#include "geores/data/tasks/copy.h"
#include "geores/data/tasks/folder.h"
#include "geores/data/tasks/gyroscope.h"
#include "geores/data/tasks/near_pi.h"
#include "geores/data/tasks/puzzles.h"
#include "geores/data/tasks/reflection.h"
#include "geores/data/tasks/stability.h"
#include "geores/data/tasks/text.h"

namespace geores {

const std::vector<Task>& tasks() {
  static const std::vector<Task> all = {
      gyroscope_task(), stability_task(), near_pi_task(), near_pi_multi_task(), reflection_task(),
      copy_task(),      folder_task(),    text_task(),    puzzles_task(),
  };
  return all;
}

const Task& find_task(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& task : tasks()) {
    if (task.name == name) return task;
    known.push_back(task.name);
  }
  const auto near = nearest(name, known);
  if (near.empty()) fail("task", "unknown task '{}'; see `geores list`", name);
  fail("task", "unknown task '{}', did you mean '{}'?", name, near);
}

TaskConfig TaskConfig::completed() const {
  return {name, find_task(name).options.complete(options, name)};
}

void TaskConfig::require_sequences() const {
  require(find_task(name).method == Method::sequences, "task",
          "this is for vectors and text, not for {}; runs on {} have train, eval, solve and study",
          name, name);
}

nlohmann::json TaskConfig::to_json() const {
  nlohmann::json object = {{"task", name}};
  object.update(options);
  return object;
}

bool stood_for_default(const std::string& key, const nlohmann::json& value) {
  if (key == "data") return value == "";
  const auto keys = {"train_sequences", "validation_sequences", "length", "theta", "vocabulary"};
  return std::ranges::find(keys, key) != keys.end() && value.is_number() && value == 0;
}

Dataset load_dataset(const TaskConfig& config, const std::string& cache) {
  const auto& task = find_task(config.name);
  return task.load(config.completed().options, cache);
}

}  // namespace geores
