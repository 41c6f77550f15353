// Shared by the tests of puzzles: small random tasks, the golden file, the ARC tasks where they are.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/base/file.h"
#include "geores/base/json.h"
#include "geores/puzzles/arc/task_file.h"
#include "geores/puzzles/random.h"

namespace geores::puzzles {

inline const nlohmann::json& golden() {
  static const auto file =
      parse_json(read_text_file(GEORES_GOLDEN_DIR "/trm_vote.json"), "trm_vote.json");
  return file;
}

inline std::filesystem::path arc_folder() { return GEORES_DATA_DIR "/arc-agi"; }
inline bool has_arc() { return std::filesystem::exists(arc_folder()); }

// Read once.
inline const std::vector<Task>& arc_subset(const std::string& name) {
  static std::map<std::string, std::vector<Task>> known;
  auto& tasks = known[name];
  if (tasks.empty()) tasks = read_subset(arc_folder(), name);
  return tasks;
}

// A damaged file needs no flush to the disk.
inline void write_quickly(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline Grid grid_from(const nlohmann::json& rows) {
  Grid grid;
  grid.height = static_cast<int>(rows.size());
  grid.width = rows.empty() ? 0 : static_cast<int>(rows[0].size());
  for (const auto& row : rows)
    for (const auto& cell : row) grid.cells.push_back(cell.get<uint8_t>());
  return grid;
}

// The golden file writes one character for each token.
inline std::vector<int32_t> tokens_from(const std::string& text) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(c >= 'a' ? c - 'a' + 10 : c - '0');
  return tokens;
}

inline Grid random_grid(Random& random, int largest, int colours = 10) {
  Grid grid{
      static_cast<int>(1 + random.below(largest)), static_cast<int>(1 + random.below(largest)), {}};
  for (int i = 0; i < grid.height * grid.width; ++i)
    grid.cells.push_back(static_cast<uint8_t>(random.below(colours)));
  return grid;
}

inline std::vector<Pair> random_pairs(Random& random, int64_t count, int largest,
                                      int colours = 10) {
  std::vector<Pair> pairs;
  for (int64_t i = 0; i < count; ++i)
    pairs.push_back({random_grid(random, largest, colours), random_grid(random, largest, colours)});
  return pairs;
}

inline std::vector<Task> random_tasks(const std::string& subset, int64_t count, int largest) {
  std::vector<Task> tasks;
  for (int64_t i = 0; i < count; ++i) {
    Random random({7, subset.size(), static_cast<uint64_t>(i)});
    Task task;
    task.name = subset + std::to_string(i);
    task.subset = subset;
    task.demonstrations = random_pairs(random, 2 + random.below(3), largest);
    task.tests = random_pairs(random, 1 + random.below(2), largest);
    tasks.push_back(std::move(task));
  }
  return tasks;
}

}  // namespace geores::puzzles
