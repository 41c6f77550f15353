#include "geores/data/tasks/puzzles.h"

#include "geores/base/error.h"

namespace geores {
namespace {

struct PuzzleSetOptions {
  std::string data;

  Fields fields() { return Fields().add("data", data, "folder of the data set (geores data ...)"); }
};

Dataset load_puzzles(const nlohmann::json& given, const std::string&) {
  PuzzleSetOptions options;
  options.fields().read(given, "puzzles");
  require(!options.data.empty(), "train",
          "task puzzles needs --data DIR, a folder that geores data made");
  Dataset data;
  data.task = "puzzles";
  data.puzzle_set = std::make_shared<const puzzles::Dataset>(puzzles::Dataset::open(options.data));
  const auto& info = data.puzzle_set->info();
  data.vocabulary = info.vocabulary;
  data.model_options = {{"identifiers", info.identifiers}};
  data.origin.facts = {{kDataFingerprint, data.puzzle_set->fingerprint()}};
  return data;
}

}  // namespace

Task puzzles_task() {
  return {.name = "puzzles",
          .summary = "solve ARC tasks, sudokus or mazes of a set that `geores data` made",
          .options = OptionSet::of<PuzzleSetOptions>(),
          .load = load_puzzles,
          .method = Method::puzzles};
}

}  // namespace geores
