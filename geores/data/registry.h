// All tasks by name. `geores list`, the flags and load_dataset follow from the list in
// registry.cpp.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/data/task.h"

namespace geores {

const std::vector<Task>& tasks();

// Fails with the nearest known name.
const Task& find_task(const std::string& name);

// Which data: a task and those of its options that are not to have their default values.
struct TaskConfig {
  std::string name = "gyroscope";
  nlohmann::json options = nlohmann::json::object();

  // With all options of the task. Refuses options that it does not have and values out of range.
  TaskConfig completed() const;

  // Refuses a task whose method is another one, for commands that read sequences.
  void require_sequences() const;

  // One flat object: {"task": name, ...options}.
  nlohmann::json to_json() const;
};

// Runs from before each task had its own options have a config.json with the options of all tasks,
// where 0 and "" meant the task's default. True for such a value.
bool stood_for_default(const std::string& key, const nlohmann::json& value);

// `cache` is a folder for generated data ("" for none), made if it is not there: a file there is
// used when its recipe is the same, replaced when it has another one or is broken, and never
// half-written.
Dataset load_dataset(const TaskConfig& config, const std::string& cache = "");

}  // namespace geores
