#include "geores/puzzles/arc/task_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"
#include "geores/base/nearest.h"

namespace geores::puzzles {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;  // the order of tasks in a file decides their identifiers

Json read_ordered(const fs::path& path) {
  const auto text = read_text_file(path);
  parse_json(text, path.native());  // strict; refuses errors that the second pass would miss
  return Json::parse(text);
}

// A value as an error quotes it. It is written out only if there is an error: a file has a million
// values.
struct Quoted {
  const Json& value;
};

std::string argument(const Quoted& quoted) { return printable(quoted.value.dump(), 40); }
template <class T>
const T& argument(const T& value) {
  return value;
}

// Where in a file we are, for errors.
struct TaskContext {
  const std::string& file;
  const std::string& task;

  template <class... Args>
  void need(bool condition, std::string_view text, const Args&... args) const {
    if (condition) return;
    fail(file, "task {}: {}", quote(task), fmt::format(fmt::runtime(text), argument(args)...));
  }
};

Grid read_grid(const Json& rows, const TaskContext& context, const std::string& what) {
  context.need(rows.is_array() && !rows.empty(), "{} must be an array of rows, got {}", what,
               Quoted{rows});
  Grid grid;
  grid.height = static_cast<int>(std::min<std::size_t>(rows.size(), 1u << 20));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& row = rows[i];
    context.need(row.is_array() && !row.empty(), "{}: row {} must be an array of colours, got {}",
                 what, i + 1, Quoted{row});
    const auto width = static_cast<int>(std::min<std::size_t>(row.size(), 1u << 20));
    if (i == 0) grid.width = width;
    context.need(width == grid.width, "{}: row {} has {} cells, row 1 has {}", what, i + 1, width,
                 grid.width);
    context.need(grid.height <= kLargestGrid && grid.width <= kLargestGrid,
                 "{} is {} x {}, larger than {} x {}", what, grid.height, grid.width, kLargestGrid,
                 kLargestGrid);
    for (std::size_t j = 0; j < row.size(); ++j) {
      const auto& cell = row[j];
      const bool colour =
          cell.is_number_integer() && cell.get<int64_t>() >= 0 && cell.get<int64_t>() < kColours;
      context.need(colour, "{}: row {} column {} is {}, not a colour 0..{}", what, i + 1, j + 1,
                   Quoted{cell}, kColours - 1);
      grid.cells.push_back(cell.get<uint8_t>());
    }
  }
  return grid;
}

std::vector<Pair> read_pairs(const Json& list, const TaskContext& context, const std::string& key) {
  context.need(list.is_array(), "'{}' must be an array of pairs, got {}", key, Quoted{list});
  context.need(!list.empty(), "'{}' is empty", key);
  std::vector<Pair> pairs;
  for (const auto& entry : list) {
    const auto what = fmt::format("{} {}", key, pairs.size() + 1);
    context.need(entry.is_object(), "{} must be an object with input and output, got {}", what,
                 Quoted{entry});
    Pair pair;
    for (const auto& [name, value] : entry.items()) {
      context.need(name == "input" || name == "output", "{} has an unknown key {}", what,
                   quote(name));
      (name == "input" ? pair.input : pair.output) = read_grid(value, context, what + " " + name);
    }
    context.need(!pair.input.empty(), "{} has no input", what);
    context.need(!pair.output.empty() || key == "test", "{} has no output", what);
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

Task read_task(const std::string& name, const Json& value, const std::string& file) {
  const TaskContext context{file, name};
  context.need(value.is_object(), "must be an object with train and test, got {}", Quoted{value});
  Task task{.name = name, .subset = "", .demonstrations = {}, .tests = {}};
  for (const auto& [key, list] : value.items()) {
    context.need(key == "train" || key == "test", "unknown key {}; a task has train and test",
                 quote(key));
    if (key == "test" && task.demonstrations.empty()) task.tests_first = true;
    (key == "train" ? task.demonstrations : task.tests) = read_pairs(list, context, key);
  }
  context.need(!task.demonstrations.empty(), "has no 'train'");
  context.need(!task.tests.empty(), "has no 'test'");
  return task;
}

std::vector<Task> read_challenges(const Json& file, const std::string& where) {
  if (!file.is_object() || file.empty())
    fail(where, "must be an object of tasks, got {}", argument(Quoted{file}));
  std::vector<Task> tasks;
  for (const auto& [name, value] : file.items()) {
    require(!name.empty() && name.find("|||") == name.npos, where,
            "{} cannot be the name of a task", quote(name));
    tasks.push_back(read_task(name, value, where));
  }
  return tasks;
}

void add_solutions(std::vector<Task>& tasks, const fs::path& path) {
  const auto& where = path.native();
  const auto solutions = read_ordered(path);
  if (!solutions.is_object())
    fail(where, "must be an object of tasks, got {}", argument(Quoted{solutions}));
  std::map<std::string, const Json*> by_name;  // a search in an ordered object is linear
  for (const auto& [name, outputs] : solutions.items()) by_name[name] = &outputs;
  for (auto& task : tasks) {
    const auto found = by_name.find(task.name);
    require(found != by_name.end(), where, "has no task {}", quote(task.name));
    const auto& outputs = *found->second;
    const TaskContext context{where, task.name};
    context.need(outputs.is_array() && outputs.size() == task.tests.size(),
                 "must have one output for each of {} tests, got {}", task.tests.size(),
                 outputs.is_array() ? outputs.size() : 0);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      task.tests[i].output = read_grid(outputs[i], context, fmt::format("output {}", i + 1));
    by_name.erase(found);
  }
  require(by_name.empty(), where, "has task {}, which is not in the challenges",
          quote(by_name.empty() ? "" : by_name.begin()->first));
}

}  // namespace

std::vector<Task> read_subset(const fs::path& folder, const std::string& subset) {
  const auto challenges = folder / (subset + "_challenges.json");
  const auto solutions = folder / (subset + "_solutions.json");
  auto tasks = read_challenges(read_ordered(challenges), challenges.native());
  if (fs::exists(solutions)) add_solutions(tasks, solutions);
  for (auto& task : tasks) {
    task.subset = subset;
    const bool complete =
        std::ranges::none_of(task.tests, [](const Pair& pair) { return pair.output.empty(); });
    require(complete, challenges.native(), "task {}: a test has no output and there is no {}",
            quote(task.name), solutions.filename().native());
  }
  return tasks;
}

std::vector<Task> read_tasks(const fs::path& path) {
  const auto file = read_ordered(path);
  if (file.is_object() && file.contains("train"))
    return {read_task(path.stem().string(), file, path.native())};
  return read_challenges(file, path.native());
}

const Task& find_task(const std::vector<Task>& tasks, const std::string& name,
                      const std::string& where) {
  std::vector<std::string> names;
  for (const auto& task : tasks) {
    if (task.name == name) return task;
    names.push_back(task.name);
  }
  fail(where, "has no task {}{}", quote(name), did_you_mean(name, names));
}

}  // namespace geores::puzzles
