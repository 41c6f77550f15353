#include "geores/puzzles/files/dataset_writer.h"

#include <algorithm>
#include <numeric>

#include "geores/base/error.h"
#include "geores/puzzles/dataset.h"
#include "geores/puzzles/files/folder_in_progress.h"
#include "geores/puzzles/files/stored_tasks.h"
#include "geores/puzzles/sudoku/shuffle.h"
#include "geores/puzzles/tokens.h"

namespace geores::puzzles {
namespace {

namespace fs = std::filesystem;

// A data set while it is written.
class Writer {
 public:
  Writer(const fs::path& folder, DatasetInfo info, Rows rows)
      : files_(folder), info_(std::move(info)), rows_(rows) {}

  FolderInProgress& files() { return files_; }

  // dataset.json and the three arrays of the index.
  void index(const std::string& split, const SplitIndex& index) {
    const auto variants = static_cast<int64_t>(index.identifiers.size());
    const nlohmann::ordered_json sizes = {
        {"pad_id", 0},
        {"ignore_label_id", 0},
        {"blank_identifier_id", 0},
        {"vocab_size", info_.vocabulary},
        {"seq_len", info_.cells()},
        {"num_puzzle_identifiers", info_.identifiers},
        {"total_groups", index.first_variant.size() - 1},
        {"mean_puzzle_examples",
         static_cast<double>(index.first_row.back()) / static_cast<double>(variants)},
        {"total_puzzles", variants},
        {"sets", {"all"}}};
    files_.write(split + "/dataset.json", sizes.dump() + "\n");
    files_.write(split + "/all__puzzle_identifiers.npy", index.identifiers);
    files_.write(split + "/all__puzzle_indices.npy", index.first_row);
    files_.write(split + "/all__group_indices.npy", index.first_variant);
  }

  // `make(row, inputs, labels)` for every row of a split.
  template <class Make>
  void rows(const std::string& split, int64_t count, Make make, const Progress& progress = {}) {
    const auto names = {split + "/all__inputs.npy", split + "/all__labels.npy"};
    std::vector<NpyStream> files;
    for (const auto& name : names)
      files.push_back(files_.stream(name, Dtype::u8, {count, info_.cells()}));
    std::vector<uint8_t> inputs(static_cast<std::size_t>(info_.cells())), labels(inputs.size());
    for (int64_t row = 0; row < count; ++row) {
      make(row, std::span(inputs), std::span(labels));
      files[0].write(std::as_bytes(std::span(inputs)));
      files[1].write(std::as_bytes(std::span(labels)));
      if (progress && (row % 1000 == 0 || row + 1 == count)) progress(row + 1, count);
    }
    auto file = files.begin();
    for (const auto& name : names) files_.close(name, *file++);
  }

  void finish(const nlohmann::json& options, nlohmann::ordered_json more = {}) {
    nlohmann::ordered_json description = {{"format", kDatasetFormat},
                                          {"version", kDatasetVersion},
                                          {"kind", info_.kind},
                                          {"rows", rows_ == Rows::made ? "made" : "stored"},
                                          {"canvas", info_.width},
                                          {"vocabulary", info_.vocabulary},
                                          {"identifiers", info_.identifiers}};
    for (const auto& [key, value] : more.items()) description[key] = value;
    description["options"] = options;
    description["files"] = files_.sums();
    files_.write("geores.json", description.dump(2) + "\n");
    files_.finish();
  }

 private:
  FolderInProgress files_;
  DatasetInfo info_;
  Rows rows_;
};

SplitIndex arc_index(const ArcRecipe& recipe, bool train) {
  SplitIndex index;
  index.first_row.push_back(0);
  index.first_variant.push_back(0);
  for (std::size_t g = 0; g < recipe.groups.size(); ++g) {
    const auto& pairs = train ? recipe.groups[g].train : recipe.groups[g].test;
    if (pairs.empty()) continue;
    for (auto v = recipe.first_variant[g]; v < recipe.first_variant[g + 1]; ++v) {
      index.identifiers.push_back(v + 1);
      index.first_row.push_back(index.first_row.back() + static_cast<int32_t>(pairs.size()));
    }
    index.first_variant.push_back(static_cast<int32_t>(index.identifiers.size()));
  }
  return index;
}

void write_arc_rows(Writer& writer, const ArcRecipe& recipe, bool train, const SplitIndex& index,
                    const Progress& progress) {
  std::size_t group = 0;
  int64_t variant = 0;  // of the split
  writer.rows(
      train ? "train" : "test", index.first_row.back(),
      [&](int64_t row, std::span<uint8_t> inputs, std::span<uint8_t> labels) {
        while (row >= index.first_row[static_cast<std::size_t>(variant) + 1]) ++variant;
        const auto identifier = index.identifiers[static_cast<std::size_t>(variant)];
        while (identifier > recipe.first_variant[group + 1]) ++group;
        const auto& pairs = train ? recipe.groups[group].train : recipe.groups[group].test;
        const auto within = row - index.first_row[static_cast<std::size_t>(variant)];
        make_row(
            pairs[static_cast<std::size_t>(within)],
            recipe.variants[static_cast<std::size_t>(identifier - 1)], recipe.canvas,
            train ? recipe.offsets[static_cast<std::size_t>(row)] : std::array<uint8_t, 2>{0, 0},
            inputs, labels);
      },
      progress);
}

void write_arc_names(FolderInProgress& files, const ArcRecipe& recipe) {
  std::string names = "[\"<blank>\"";
  for (std::size_t g = 0; g < recipe.groups.size(); ++g)
    for (auto v = recipe.first_variant[g]; v < recipe.first_variant[g + 1]; ++v)
      names += ", " + nlohmann::json(name_of(recipe.groups[g].task,
                                             recipe.variants[static_cast<std::size_t>(v)]))
                          .dump();
  files.write("identifiers.json", names + "]\n");
  files.write("test_puzzles.json", test_puzzles_text(recipe.groups));
}

// One row for each variant, all with the blank identifier.
SplitIndex plain_index(int64_t groups, int64_t variants_per_group) {
  SplitIndex index;
  const auto variants = static_cast<std::size_t>(groups * variants_per_group);
  index.identifiers.assign(variants, 0);
  index.first_row.resize(variants + 1);
  std::iota(index.first_row.begin(), index.first_row.end(), 0);
  for (int64_t g = 0; g <= groups; ++g)
    index.first_variant.push_back(static_cast<int32_t>(g * variants_per_group));
  return index;
}

}  // namespace

void write_arc(const fs::path& folder, const std::string& kind, const ArcRecipe& recipe, Rows rows,
               const nlohmann::json& options, const Progress& progress) {
  const auto train = arc_index(recipe, true), test = arc_index(recipe, false);
  require(!test.identifiers.empty(), "arc", "no task is left for the test split");
  Writer writer(folder,
                {.kind = kind,
                 .height = recipe.canvas,
                 .width = recipe.canvas,
                 .vocabulary = kArcVocabulary,
                 .identifiers = static_cast<int64_t>(recipe.variants.size()) + 1},
                rows);
  auto& files = writer.files();
  writer.index("train", train);
  writer.index("test", test);
  if (rows == Rows::made) {
    files.write("tasks.json", tasks_text(recipe.groups));
    std::vector<uint8_t> codes;
    for (const auto& variant : recipe.variants) {
      codes.push_back(variant.t);
      codes.insert(codes.end(), variant.colours.begin(), variant.colours.end());
    }
    files.write("variants.npy", codes, 1 + kColours);
    std::vector<uint8_t> offsets;
    for (const auto& offset : recipe.offsets)
      offsets.insert(offsets.end(), offset.begin(), offset.end());
    files.write("train/offsets.npy", offsets, 2);
  } else {
    const auto total = train.first_row.back() + test.first_row.back();
    const auto report = [&](int64_t before) {
      return [&, before](int64_t done, int64_t) {
        if (progress) progress(before + done, total);
      };
    };
    write_arc_rows(writer, recipe, true, train, report(0));
    write_arc_rows(writer, recipe, false, test, report(train.first_row.back()));
    write_arc_names(files, recipe);
  }
  writer.finish(options, {{"identifiers_sha256", identifiers_hash(recipe)}});
}

void write_sudokus(const fs::path& folder, int size, const SudokuSet& set, int64_t shuffles,
                   Rows rows, const nlohmann::json& options, const Progress& progress) {
  const auto groups = static_cast<int64_t>(set.train.size());
  require(shuffles >= 0 && groups * (shuffles + 1) < INT32_MAX, "sudoku",
          "{} shuffles of {} puzzles are too many", shuffles, groups);
  Writer writer(
      folder,
      {.kind = "sudoku", .height = size, .width = size, .vocabulary = sudoku_vocabulary(size)},
      rows);
  auto& files = writer.files();
  const auto ratings = [](const std::vector<Sudoku>& puzzles) {
    std::vector<int32_t> all;
    for (const auto& each : puzzles) all.push_back(static_cast<int32_t>(each.rating));
    return all;
  };
  const auto put = [](const Sudoku& sudoku, std::span<uint8_t> inputs, std::span<uint8_t> labels) {
    std::ranges::transform(sudoku.board, inputs.begin(), sudoku_token);
    std::ranges::transform(sudoku.solution, labels.begin(), sudoku_token);
  };
  writer.index("train", plain_index(groups, shuffles + 1));
  files.write("train/ratings.npy", ratings(set.train));
  if (rows == Rows::made) {
    const auto cells = static_cast<std::size_t>(size * size);
    std::vector<uint8_t> inputs(set.train.size() * cells), labels(inputs.size());
    for (std::size_t i = 0; i < set.train.size(); ++i)
      put(set.train[i], std::span(inputs).subspan(i * cells, cells),
          std::span(labels).subspan(i * cells, cells));
    files.write("train/puzzles__inputs.npy", inputs, size * size);
    files.write("train/puzzles__labels.npy", labels, size * size);
  } else {
    const auto seed = options.at("seed").get<uint64_t>();
    writer.rows(
        "train", groups * (shuffles + 1),
        [&](int64_t row, std::span<uint8_t> inputs, std::span<uint8_t> labels) {
          const auto puzzle = row / (shuffles + 1), variant = row % (shuffles + 1);
          put(set.train[static_cast<std::size_t>(puzzle)], inputs, labels);
          if (variant == 0) return;
          const auto shuffle = SudokuShuffle::draw(size, seed, static_cast<uint64_t>(puzzle),
                                                   static_cast<uint64_t>(variant));
          shuffle.apply_to_tokens(inputs);
          shuffle.apply_to_tokens(labels);
        },
        progress);
  }
  const auto tests = static_cast<int64_t>(set.test.size());
  writer.index("test", plain_index(tests, 1));
  files.write("test/ratings.npy", ratings(set.test));
  writer.rows("test", tests,
              [&](int64_t row, std::span<uint8_t> inputs, std::span<uint8_t> labels) {
                put(set.test[static_cast<std::size_t>(row)], inputs, labels);
              });
  files.write("identifiers.json", "[\"<blank>\"]\n");
  writer.finish(options);
}

void write_mazes(const fs::path& folder, int size, const MazeSet& set, bool dihedral,
                 const nlohmann::json& options) {
  Writer writer(folder,
                {.kind = "maze", .height = size, .width = size, .vocabulary = kMazeVocabulary},
                Rows::stored);
  const auto put = [&](const char* split, const std::vector<Maze>& mazes, int64_t variants) {
    const auto count = static_cast<int64_t>(mazes.size());
    writer.index(split, plain_index(count, variants));
    writer.rows(
        split, count * variants,
        [&](int64_t row, std::span<uint8_t> inputs, std::span<uint8_t> labels) {
          const auto& maze = mazes[static_cast<std::size_t>(row / variants)];
          const auto t = static_cast<int>(row % variants);
          std::ranges::copy(puzzles::dihedral({size, size, maze.input}, t).cells, inputs.begin());
          std::ranges::copy(puzzles::dihedral({size, size, maze.label}, t).cells, labels.begin());
        });
  };
  put("train", set.train, dihedral ? 8 : 1);
  put("test", set.test, 1);
  writer.files().write("identifiers.json", "[\"<blank>\"]\n");
  writer.finish(options);
}

}  // namespace geores::puzzles
