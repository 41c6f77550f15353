#include "geores/puzzles/dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/files/mapped_file.h"
#include "geores/base/json.h"
#include "geores/base/sha256.h"
#include "geores/puzzles/files/row_sources.h"
#include "geores/puzzles/files/stored_tasks.h"
#include "geores/puzzles/sudoku/board.h"

namespace geores::puzzles {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription = "geores.json";

// A number of a JSON object, in a range.
int64_t integer(const nlohmann::json& object, const char* key, int64_t low, int64_t high,
                const std::string& where) {
  const auto found = object.find(key);
  require(found != object.end() && found->is_number_integer(), where,
          "'{}' is missing or not an integer", key);
  const auto value = found->get<int64_t>();
  require(value >= low && value <= high, where, "'{}' must be {} to {}, got {}", key, low, high,
          value);
  return value;
}

std::vector<int32_t> read_integers(const fs::path& path) {
  const auto array = load_npy(path);
  require(array.dtype == Dtype::i32 && array.shape.size() == 1, path.native(),
          "must be a one-dimensional int32 array");
  std::vector<int32_t> values(static_cast<std::size_t>(array.shape[0]));
  if (!values.empty()) std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

// 0, then larger from entry to entry, `count` intervals.
void check_firsts(const std::vector<int32_t>& firsts, std::size_t count, const fs::path& path) {
  require(firsts.size() == count + 1 && firsts.front() == 0, path.native(),
          "must have {} entries that begin with 0", count + 1);
  require(std::ranges::adjacent_find(firsts, std::greater_equal<>()) == firsts.end(), path.native(),
          "must increase from entry to entry");
}

SplitIndex read_index(const fs::path& folder, int64_t identifiers) {
  SplitIndex index;
  const auto identifiers_path = folder / "all__puzzle_identifiers.npy";
  const auto rows_path = folder / "all__puzzle_indices.npy";
  const auto groups_path = folder / "all__group_indices.npy";
  index.identifiers = read_integers(identifiers_path);
  index.first_row = read_integers(rows_path);
  index.first_variant = read_integers(groups_path);
  require(!index.identifiers.empty(), identifiers_path.native(), "is empty");
  for (const auto each : index.identifiers)
    require(each >= 0 && each < identifiers, identifiers_path.native(),
            "identifier {} is not one of {}", each, identifiers);
  check_firsts(index.first_row, index.identifiers.size(), rows_path);
  require(index.first_variant.size() >= 2, groups_path.native(), "has no group");
  check_firsts(index.first_variant, index.first_variant.size() - 1, groups_path);
  require(std::cmp_equal(index.first_variant.back(), index.identifiers.size()),
          groups_path.native(), "must end with the number of variants, {}",
          index.identifiers.size());
  return index;
}

// dataset.json of the training split, as published.
DatasetInfo published_info(const fs::path& folder) {
  const auto path = folder / "train" / "dataset.json";
  require(fs::exists(path), folder.native(),
          "is not a puzzle data set: it has neither {} nor train/dataset.json (geores data makes "
          "one)",
          kDescription);
  const auto& where = path.native();
  const auto object = parse_json(read_text_file(path), where);
  DatasetInfo info;
  info.vocabulary = integer(object, "vocab_size", 2, 256, where);
  info.identifiers = integer(object, "num_puzzle_identifiers", 1, INT32_MAX, where);
  require(integer(object, "ignore_label_id", 0, 255, where) == 0 &&
              integer(object, "pad_id", 0, 255, where) == 0,
          where, "pad_id and ignore_label_id must be 0");
  const auto cells = integer(object, "seq_len", 1, 3600, where);
  info.height = info.width = std::lround(std::sqrt(static_cast<double>(cells)));
  require(info.cells() == cells, where, "seq_len {} is not a square", cells);
  info.kind = info.identifiers > 1 ? "arc" : info.vocabulary == 6 ? "maze" : "sudoku";
  return info;
}

struct Description {
  DatasetInfo info;
  bool made = false;  // rows are made when they are asked for
  nlohmann::json json;
};

Description read_description(const fs::path& folder) {
  const auto path = folder / kDescription;
  const auto& where = path.native();
  Description result;
  result.json = parse_json(read_text_file(path), where);
  const auto& object = result.json;
  require(object.is_object() && object.value("format", nlohmann::json()) == kDatasetFormat, where,
          "does not describe a puzzle data set");
  const auto version = integer(object, "version", 0, INT32_MAX, where);
  require(version == kDatasetVersion, folder.native(),
          "is version {} of the data set format, this geores reads version {}; build it again with "
          "geores data",
          version, kDatasetVersion);
  auto& info = result.info;
  const auto text = [&](const char* key) {
    const auto found = object.find(key);
    require(found != object.end() && found->is_string(), where, "'{}' is missing or no text", key);
    return found->get<std::string>();
  };
  info.kind = text("kind");
  require(info.is_arc() || info.kind == "sudoku" || info.kind == "maze", where,
          "kind must be arc, reflect, sudoku or maze, got {}", quote(info.kind));
  const auto rows = text("rows");
  require(rows == "made" || rows == "stored", where, "rows must be made or stored, got {}",
          quote(rows));
  result.made = rows == "made";
  info.height = info.width = integer(object, "canvas", 1, 60, where);
  info.vocabulary = integer(object, "vocabulary", 2, 256, where);
  info.identifiers = integer(object, "identifiers", 1, INT32_MAX, where);
  info.options = object.value("options", nlohmann::json::object());
  return result;
}

std::vector<int32_t> read_ratings(const fs::path& folder, const SplitIndex& index) {
  const auto path = folder / "ratings.npy";
  if (!fs::exists(path)) return {};
  auto ratings = read_integers(path);
  require(ratings.size() + 1 == index.first_variant.size(), path.native(),
          "must have one rating for each of {} groups", index.first_variant.size() - 1);
  return ratings;
}

std::unique_ptr<RowSource> open_arc_rows(const fs::path& folder, bool train,
                                         const SplitIndex& index, int canvas,
                                         const std::shared_ptr<const ArcTables>& tables) {
  for (std::size_t v = 0; v < index.identifiers.size(); ++v) {
    const auto identifier = index.identifiers[v];
    require(identifier >= 1, folder.native(), "variant {} has the blank identifier", v);
    const auto& group = tables->groups[static_cast<std::size_t>(tables->group(identifier))];
    const auto rows = index.first_row[v + 1] - index.first_row[v];
    const auto pairs = train ? group.train.size() : group.test.size();
    require(std::cmp_equal(rows, pairs), folder.native(),
            "variant {} has {} rows, its task {} has {} pairs", v, rows, quote(group.task), pairs);
  }
  std::vector<std::array<uint8_t, 2>> offsets;
  if (train) offsets = read_offsets(folder / "offsets.npy", index.first_row.back());
  return std::make_unique<ArcRows>(tables, train, canvas, std::move(offsets));
}

std::unique_ptr<RowSource> open_rows(const fs::path& folder, const char* name,
                                     const Description& description, const SplitIndex& index,
                                     const std::shared_ptr<const ArcTables>& tables) {
  const auto& info = description.info;
  const bool train = name == std::string_view("train");
  if (description.made && info.is_arc())
    return open_arc_rows(folder, train, index, static_cast<int>(info.width), tables);
  if (description.made && train && info.kind == "sudoku") {
    StoredRows puzzles(folder / "puzzles__inputs.npy", folder / "puzzles__labels.npy",
                       static_cast<int64_t>(index.first_variant.size()) - 1, info.cells());
    const auto seed = integer(info.options, "seed", INT64_MIN, INT64_MAX, folder.native());
    return std::make_unique<ShuffledSudokus>(std::move(puzzles), static_cast<int>(info.width),
                                             static_cast<uint64_t>(seed));
  }
  return std::make_unique<StoredRows>(folder / "all__inputs.npy", folder / "all__labels.npy",
                                      index.first_row.back(), info.cells());
}

// Reading 6.5 GB of stored rows would take longer than most that is done with them.
constexpr std::uintmax_t kMostChecked = std::uintmax_t{256} << 20;

// A run remembers the sums, so files must still have them: other rows would be taken for those that it
// was trained on.
void check_sums(const fs::path& folder, const nlohmann::json& description) {
  if (!description.contains("files")) return;  // a published set has none
  const auto& files = description["files"];
  require(files.is_object(), (folder / kDescription).native(), "'files' is no object");
  for (const auto& [name, sum] : files.items()) {
    const auto path = folder / name;
    require(fs::is_regular_file(path), path.native(), "is missing; build the data set again");
    if (fs::file_size(path) > kMostChecked || fs::file_size(path) == 0) continue;
    Sha256 found;
    found.add(MappedFile(path).bytes());
    require(sum == found.hex(), path.native(),
            "was changed since the data set was made; build it again with geores data");
  }
}

std::string fingerprint_of(const fs::path& folder) {
  Sha256 sum;
  if (fs::exists(folder / kDescription)) {
    sum.add(read_file(folder / kDescription));
    return sum.hex();
  }
  for (const char* split : {"train", "test"})
    for (const char* file : {"dataset.json", "all__puzzle_identifiers.npy",
                             "all__puzzle_indices.npy", "all__group_indices.npy"})
      sum.add(read_file(folder / split / file));
  if (fs::exists(folder / "identifiers.json")) sum.add(read_file(folder / "identifiers.json"));
  return sum.hex();
}

}  // namespace

Dataset Dataset::open(const fs::path& folder) {
  require(fs::is_directory(folder), folder.native(), "is not a folder with a puzzle data set");
  Description description;
  if (fs::exists(folder / kDescription)) {
    description = read_description(folder);
  } else {
    description.info = published_info(folder);
  }
  Dataset data;
  data.info_ = description.info;
  if (data.info_.kind == "sudoku") sudoku_shape(static_cast<int>(data.info_.width));
  if (data.info_.is_arc()) {
    auto tables = description.made ? read_made_tables(folder) : read_published_tables(folder);
    require(std::cmp_equal(tables.variants.size() + 1, data.info_.identifiers), folder.native(),
            "has {} names of variants for {} identifiers", tables.variants.size() + 1,
            data.info_.identifiers);
    data.arc_ = std::make_shared<const ArcTables>(std::move(tables));
  }
  for (const char* name : {"train", "test"}) {
    const auto split_folder = folder / name;
    auto index = read_index(split_folder, data.info_.identifiers);
    auto ratings = read_ratings(split_folder, index);
    auto rows = open_rows(split_folder, name, description, index, data.arc_);
    auto split =
        std::make_unique<const Split>(std::move(index), std::move(rows), data.info_.cells(),
                                      data.info_.vocabulary, std::move(ratings));
    (name == std::string_view("train") ? data.train_ : data.test_) = std::move(split);
  }
  check_sums(folder, description.json);  // last: the checks above have more specific messages
  data.fingerprint_ = fingerprint_of(folder);
  return data;
}

std::string Dataset::identifier_name(int32_t identifier) const {
  if (identifier == 0) return "<blank>";
  require(arc_ != nullptr && identifier > 0 && identifier < info_.identifiers, "puzzles",
          "identifier {} is not one of {}", identifier, info_.identifiers);
  return name_of(arc_->groups[static_cast<std::size_t>(arc_->group(identifier))].task,
                 arc_->variant(identifier));
}

}  // namespace geores::puzzles
