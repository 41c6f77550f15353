#include "geores/puzzles/files/stored_tasks.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/formats/npy.h"
#include "geores/base/json.h"

namespace geores::puzzles {
namespace {

namespace fs = std::filesystem;

std::string grid_text(const Grid& grid) {
  std::string text;
  for (int i = 0; i < grid.height; ++i) {
    if (i > 0) text += '|';
    for (int j = 0; j < grid.width; ++j) text += static_cast<char>('0' + grid.at(i, j));
  }
  return text;
}

Grid parse_grid(const nlohmann::json& value, const std::string& where) {
  require(value.is_string(), where, "a grid must be a text of rows");
  Grid grid;
  int width = 0;
  const auto end_row = [&] {
    if (grid.height == 0) grid.width = width;
    ++grid.height;
    require(
        width == grid.width && width > 0 && width <= kLargestGrid && grid.height <= kLargestGrid,
        where, "a grid has rows of different length, or is empty or too large");
    width = 0;
  };
  for (const char c : value.get_ref<const std::string&>()) {
    if (c == '|') {
      end_row();
      continue;
    }
    require(c >= '0' && c <= '9', where, "a grid holds something that is not a colour 0..9");
    grid.cells.push_back(static_cast<uint8_t>(c - '0'));
    ++width;
  }
  end_row();
  return grid;
}

nlohmann::json pairs_json(const std::vector<Pair>& pairs) {
  auto list = nlohmann::json::array();
  for (const auto& pair : pairs) list.push_back({grid_text(pair.input), grid_text(pair.output)});
  return list;
}

std::vector<Pair> parse_pairs(const nlohmann::json& list, const std::string& where) {
  require(list.is_array(), where, "a task's pairs must be an array");
  std::vector<Pair> pairs;
  for (const auto& pair : list) {
    require(pair.is_array() && pair.size() == 2, where, "a pair must be two grids");
    pairs.push_back({parse_grid(pair[0], where), parse_grid(pair[1], where)});
  }
  return pairs;
}

Group parse_group(const nlohmann::json& value, const std::string& where) {
  require(value.is_object(), where, "must be a list of tasks");
  const auto text = [&](const char* key) {
    const auto found = value.find(key);
    require(found != value.end() && found->is_string(), where, "a task has no '{}'", key);
    return found->get<std::string>();
  };
  require(value.contains("train") && value.contains("test"), where,
          "a task has no 'train' or no 'test'");
  return {.task = text("task"),
          .subset = text("subset"),
          .label = text("label"),
          .train = parse_pairs(value["train"], where),
          .test = parse_pairs(value["test"], where)};
}

NpyArray read_bytes(const fs::path& path, int64_t columns) {
  auto array = load_npy(path);
  require(array.dtype == Dtype::u8 && array.shape.size() == 2 && array.shape[1] == columns,
          path.native(), "must be a uint8 array with {} columns", columns);
  return array;
}

bool is_permutation(const Variant& variant) {
  unsigned seen = 0;
  for (const auto colour : variant.colours) seen |= colour < kColours ? 1u << colour : 0;
  return seen == (1u << kColours) - 1;
}

}  // namespace

ArcTables read_made_tables(const fs::path& folder) {
  ArcTables tables;
  const auto tasks_path = folder / "tasks.json", variants_path = folder / "variants.npy";
  const auto& where = tasks_path.native();
  const auto tasks = parse_json(read_text_file(tasks_path), where);
  require(tasks.is_array() && !tasks.empty(), where, "must be a list of tasks");
  for (const auto& task : tasks) tables.groups.push_back(parse_group(task, where));

  const auto variants = read_bytes(variants_path, 1 + kColours);
  for (int64_t i = 0; i < variants.shape[0]; ++i) {
    const auto* row = reinterpret_cast<const uint8_t*>(variants.bytes.data()) + i * (1 + kColours);
    Variant variant;
    variant.t = row[0];
    std::copy(row + 1, row + 1 + kColours, variant.colours.begin());
    require(variant.t < 8 && is_permutation(variant), variants_path.native(),
            "row {} is no variant", i);
    tables.variants.push_back(variant);
  }

  const auto first_path = folder / "train" / "all__group_indices.npy";
  const auto first = load_npy(first_path);
  require(first.dtype == Dtype::i32 &&
              first.shape == std::vector<int64_t>{static_cast<int64_t>(tasks.size()) + 1},
          first_path.native(), "must have one int32 for each of {} tasks, and one more",
          tasks.size());
  std::vector<int32_t> firsts(tasks.size() + 1);
  std::memcpy(firsts.data(), first.bytes.data(), first.bytes.size());
  require(std::cmp_equal(firsts.back(), tables.variants.size()) && std::ranges::is_sorted(firsts) &&
              firsts.front() == 0,
          first_path.native(), "must increase from 0 to {} variants", tables.variants.size());
  for (std::size_t g = 0; g < tasks.size(); ++g)
    tables.group_of.insert(tables.group_of.end(),
                           static_cast<std::size_t>(firsts[g + 1] - firsts[g]),
                           static_cast<int32_t>(g));
  return tables;
}

ArcTables read_published_tables(const fs::path& folder) {
  ArcTables tables;
  const auto path = folder / "identifiers.json";
  const auto names = parse_json(read_text_file(path), path.native());
  require(names.is_array() && !names.empty() && names[0] == "<blank>", path.native(),
          "must be a list of names that begins with <blank>");
  std::map<std::string, int32_t> number;
  for (std::size_t i = 1; i < names.size(); ++i) {
    require(names[i].is_string(), path.native(), "name {} is no text", i);
    auto [task, variant] = parse_variant(names[i].get_ref<const std::string&>(), path.native());
    const auto [found, is_new] = number.emplace(task, static_cast<int32_t>(tables.groups.size()));
    if (is_new) tables.groups.push_back({.task = task, .subset = "", .train = {}, .test = {}});
    tables.group_of.push_back(found->second);
    tables.variants.push_back(variant);
  }
  const auto tests_path = folder / "test_puzzles.json";
  for (auto& task : read_tasks(tests_path)) {
    const auto found = number.find(task.name);
    require(found != number.end(), tests_path.native(), "task {} has no identifier",
            quote(task.name));
    auto& group = tables.groups[static_cast<std::size_t>(found->second)];
    group.train = std::move(task.demonstrations);
    group.test = std::move(task.tests);
  }
  return tables;
}

std::vector<std::array<uint8_t, 2>> read_offsets(const fs::path& path, int64_t rows) {
  const auto array = read_bytes(path, 2);
  require(array.shape[0] == rows, path.native(), "must have {} rows, got {}", rows, array.shape[0]);
  std::vector<std::array<uint8_t, 2>> offsets(static_cast<std::size_t>(rows));
  std::memcpy(offsets.data(), array.bytes.data(), array.bytes.size());
  return offsets;
}

std::string tasks_text(const std::vector<Group>& groups) {
  auto list = nlohmann::json::array();
  for (const auto& group : groups)
    list.push_back({{"task", group.task},
                    {"subset", group.subset},
                    {"label", group.label},
                    {"train", pairs_json(group.train)},
                    {"test", pairs_json(group.test)}});
  return list.dump() + "\n";
}

std::string test_puzzles_text(const std::vector<Group>& groups) {
  const auto listed = [](const std::vector<Pair>& pairs) {
    auto list = nlohmann::json::array();
    for (const auto& pair : pairs)
      list.push_back({{"input", to_json(pair.input)}, {"output", to_json(pair.output)}});
    return list;
  };
  std::string text;  // joined here, because a JSON object would sort the tasks
  for (const auto& group : groups) {
    if (group.test.empty()) continue;
    const nlohmann::json task = {{"train", listed(group.train)}, {"test", listed(group.test)}};
    text += (text.empty() ? "{" : ", ") + nlohmann::json(group.task).dump() + ": " + task.dump();
  }
  return text + "}\n";
}

}  // namespace geores::puzzles
