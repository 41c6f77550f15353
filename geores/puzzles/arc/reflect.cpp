#include "geores/puzzles/arc/reflect.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "geores/base/error.h"
#include "geores/base/formats/numpy_generator.h"
#include "geores/puzzles/random.h"

namespace geores::puzzles {
namespace {

constexpr std::size_t most_selected = 20, least_from_evaluation = 5;

bool fits_any(const Pair& pair, int first, int last) {
  for (int t = first; t <= last; ++t)
    if (fits(pair, t)) return true;
  return false;
}

// Empty if the task is neither.
std::string published_label(const SymmetryScore& score) {
  const auto other = std::max(score.rotation, score.identity);
  if (score.reflect >= 0.3 && score.reflect >= other) return "reflect";
  if (other >= 0.2 && score.reflect <= 0.2 && other >= score.reflect) return "control";
  return "";
}

std::string strict_label(const SymmetryScore& score) {
  const auto other = std::max(score.rotation, score.identity);
  if (score.reflect == 1 && other < 1) return "reflect";
  if (other == 1 && score.reflect < 1) return "control";
  return "";
}

template <class Label>
std::vector<ReflectTask> labelled(const std::vector<Task>& tasks, Label label) {
  std::vector<ReflectTask> found;
  for (const auto& task : tasks) {
    const auto score = symmetry_score(task);
    if (const auto name = label(score); !name.empty()) found.push_back({task, score, name});
  }
  return found;
}

std::vector<ReflectTask> draw(const std::vector<ReflectTask>& candidates, NumpyGenerator& random) {
  if (candidates.size() <= most_selected) return candidates;
  std::vector<ReflectTask> first, rest, selected;
  for (const auto& each : candidates)
    (each.task.subset == "evaluation" ? first : rest).push_back(each);
  const auto take = [&](std::vector<ReflectTask>& from, std::size_t count) {
    auto chosen = random.choice(static_cast<int64_t>(from.size()), static_cast<int64_t>(count));
    for (const auto i : chosen) selected.push_back(from[static_cast<std::size_t>(i)]);
    std::ranges::sort(chosen, std::greater<>());
    for (const auto i : chosen) from.erase(from.begin() + i);
  };
  if (!first.empty()) take(first, std::min(least_from_evaluation, first.size()));
  rest.insert(rest.begin(), first.begin(), first.end());
  take(rest, most_selected - selected.size());
  return selected;
}

// A few blobs of one colour each, grown cell by cell.
Grid random_objects(Random& random) {
  Grid grid;
  grid.height = static_cast<int>(3 + random.below(8));
  grid.width = static_cast<int>(3 + random.below(8));
  grid.cells.assign(static_cast<std::size_t>(grid.height * grid.width), 0);
  const auto area = grid.height * grid.width;
  for (auto objects = 1 + random.below(4); objects > 0; --objects) {
    const auto colour = static_cast<uint8_t>(1 + random.below(9));
    int row = static_cast<int>(random.below(grid.height));
    int column = static_cast<int>(random.below(grid.width));
    for (auto size = 2 + random.below(std::max(2, area / 4)); size > 0; --size) {
      grid.cells[static_cast<std::size_t>(row * grid.width + column)] = colour;
      const auto way = random.below(4);
      row = std::clamp(row + (way == 0) - (way == 1), 0, grid.height - 1);
      column = std::clamp(column + (way == 2) - (way == 3), 0, grid.width - 1);
    }
  }
  return grid;
}

Task draw_synthetic(bool reflect, Random& random) {
  Variant hidden;
  hidden.t = static_cast<uint8_t>(reflect ? 4 + random.below(4) : 1 + random.below(3));
  random.shuffle(std::span(hidden.colours).subspan(1));
  Task task;
  for (int i = 0; i < 4; ++i) {
    Pair pair{random_objects(random), {}};
    pair.output = apply(hidden, pair.input);
    (i < 3 ? task.demonstrations : task.tests).push_back(std::move(pair));
  }
  return task;
}

// One class alone explains the task: no pair, the test neither, fits the other two.
bool is_unambiguous(const Task& task, bool reflect) {
  auto pairs = task.demonstrations;
  pairs.insert(pairs.end(), task.tests.begin(), task.tests.end());
  return std::ranges::none_of(pairs, [&](const Pair& pair) {
    return fits(pair, 0) || (reflect ? fits_any(pair, 1, 3) : fits_any(pair, 4, 7));
  });
}

}  // namespace

bool fits(const Pair& pair, int t) {
  const auto turned = dihedral(pair.input, t);
  if (turned.height != pair.output.height || turned.width != pair.output.width) return false;
  std::array<int, kColours> map;
  map.fill(-1);
  for (std::size_t i = 0; i < turned.cells.size(); ++i) {
    auto& image = map[turned.cells[i]];
    if (image >= 0 && image != pair.output.cells[i]) return false;
    image = pair.output.cells[i];
  }
  return true;
}

SymmetryScore symmetry_score(const Task& task) {
  SymmetryScore score;
  for (const auto& pair : task.demonstrations) {
    score.reflect += fits_any(pair, 4, 7);
    score.rotation += fits_any(pair, 1, 3);
    score.identity += fits(pair, 0);
  }
  const auto count = static_cast<double>(task.demonstrations.size());
  return {score.reflect / count, score.rotation / count, score.identity / count};
}

ReflectChoice choose_published(const std::vector<Task>& tasks, uint32_t seed) {
  ReflectChoice choice;
  choice.candidates = labelled(tasks, published_label);
  NumpyGenerator random(seed);
  for (const char* label : {"reflect", "control"}) {
    std::vector<ReflectTask> mine;
    for (const auto& each : choice.candidates)
      if (each.label == label) mine.push_back(each);
    const auto drawn = draw(mine, random);
    choice.selected.insert(choice.selected.end(), drawn.begin(), drawn.end());
  }
  return choice;
}

ReflectChoice choose_strict(const std::vector<Task>& tasks) {
  ReflectChoice choice;
  choice.candidates = choice.selected = labelled(tasks, strict_label);
  std::ranges::stable_sort(choice.selected, {},
                           [](const ReflectTask& each) { return each.label == "control"; });
  return choice;
}

std::vector<std::string> facts_about(const ReflectChoice& choice) {
  std::vector<std::string> lines;
  for (const std::string label : {"reflect", "control"}) {
    int64_t candidates = 0, selected = 0, evaluation = 0, ties = 0, alone = 0;
    for (const auto& each : choice.candidates) candidates += each.label == label;
    for (const auto& each : choice.selected) {
      if (each.label != label) continue;
      const auto other = std::max(each.score.rotation, each.score.identity);
      ++selected;
      evaluation += each.task.subset == "evaluation";
      ties += each.score.reflect == other;
      alone += !strict_label(each.score).empty();
    }
    lines.push_back(fmt::format(
        "{}: {} candidates, {} selected; {} of these from evaluation, {} ties between reflections "
        "and the other classes, {} explained on all pairs by their class alone",
        label, candidates, selected, evaluation, ties, alone));
  }
  return lines;
}

std::vector<ReflectTask> synthetic_tasks(int64_t count, uint64_t seed) {
  require(count >= 1 && count <= 10000, "reflect", "tasks must be 1 to 10000, got {}", count);
  std::vector<ReflectTask> tasks;
  for (const bool reflect : {true, false})
    for (int64_t i = 0; i < count; ++i) {
      const std::string label = reflect ? "reflect" : "control";
      for (uint64_t attempt = 0;; ++attempt) {
        Random random({seed, reflect ? 1u : 2u, static_cast<uint64_t>(i), attempt});
        auto task = draw_synthetic(reflect, random);
        if (!is_unambiguous(task, reflect)) continue;
        task.name = fmt::format("{}-{:04}", label, i);
        task.subset = "synthetic";
        const auto score = symmetry_score(task);
        tasks.push_back({std::move(task), score, label});
        break;
      }
    }
  return tasks;
}

ArcRecipe build_reflect(const std::vector<ReflectTask>& tasks, bool hold_out_all,
                        const ArcOptions& options) {
  std::vector<Subset> subsets;
  std::map<std::string, std::string> labels;
  for (const auto& each : tasks) {
    subsets.push_back({{each.task}, hold_out_all || each.task.subset == "evaluation"});
    labels[each.task.name] = each.label;
  }
  auto recipe = build_arc(subsets, options);
  for (auto& group : recipe.groups) group.label = labels.at(group.task);
  return recipe;
}

}  // namespace geores::puzzles
