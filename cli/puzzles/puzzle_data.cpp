// geores data arc|sudoku|maze|reflect: makes the puzzle data sets that recursive models learn from.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/terminal/progress_bar.h"
#include "geores/base/error.h"
#include "geores/base/nearest.h"
#include "geores/puzzles/arc/reflect.h"
#include "geores/puzzles/files/dataset_writer.h"
#include "geores/puzzles/statistics.h"

namespace geores::cli {
namespace {

namespace fs = std::filesystem;

// Shows the progress of a long step on stderr.
class DataProgress {
 public:
  explicit DataProgress(const std::string& label) : bar_(label) {}
  puzzles::Progress shown() {
    return [this](int64_t done, int64_t total) {
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
      bar_.show(done, total, passed.count(), "");
    };
  }

 private:
  ProgressBar bar_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Before minutes of work, not after them.
void require_new(const std::string& out) {
  require(!fs::exists(out), out, "exists already; choose another folder or remove it");
}

puzzles::Rows rows_of(const std::string& word) {
  require(word == "made" || word == "stored", "data", "--rows must be made or stored, got {}",
          quote(word));
  return word == "made" ? puzzles::Rows::made : puzzles::Rows::stored;
}

uint32_t numpy_seed(int64_t seed) {
  require(seed >= 0 && seed <= UINT32_MAX, "data", "--seed must be 0 to {}, got {}", UINT32_MAX,
          seed);
  return static_cast<uint32_t>(seed);
}

std::string megabytes(const fs::path& folder) {
  uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) bytes += entry.file_size();
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

struct ArcFlags {
  std::string tasks, test = "evaluation", rows = "made", out;
  std::vector<std::string> subsets = {"training", "evaluation", "concept"};
  int64_t variants = 1000, seed = 42;
  int canvas = puzzles::kLargestGrid;
  bool no_dihedral = false;
};

void print_arc(const std::string& out, const puzzles::ArcRecipe& recipe) {
  int64_t train = 0, test = 0, tests = 0, few = 0;
  const auto most = [&] {
    int32_t largest = 0;
    for (std::size_t g = 0; g < recipe.groups.size(); ++g)
      largest = std::max(largest, recipe.first_variant[g + 1] - recipe.first_variant[g]);
    return largest;
  }();
  for (std::size_t g = 0; g < recipe.groups.size(); ++g) {
    const int64_t variants = recipe.first_variant[g + 1] - recipe.first_variant[g];
    train += variants * static_cast<int64_t>(recipe.groups[g].train.size());
    test += variants * static_cast<int64_t>(recipe.groups[g].test.size());
    tests += static_cast<int64_t>(recipe.groups[g].test.size());
    few += variants < most;
  }
  fmt::print(
      "{}: {} tasks, {} identifiers, {} training rows, {} test rows of {} tests; {} tasks "
      "have fewer than {} variants; {}\n",
      out, recipe.groups.size(), recipe.variants.size() + 1, train, test, tests, few, most,
      megabytes(out));
  fmt::print("sha256 of the identifiers' names: {}\n", puzzles::identifiers_hash(recipe));
}

void make_arc(const ArcFlags& flags) {
  require_new(flags.out);
  const auto rows = rows_of(flags.rows);
  const puzzles::ArcOptions options{.variants = flags.variants,
                                    .seed = numpy_seed(flags.seed),
                                    .canvas = flags.canvas,
                                    .dihedral = !flags.no_dihedral};
  require(std::ranges::find(flags.subsets, flags.test) != flags.subsets.end(), "data",
          "--test {} is not one of the subsets{}", quote(flags.test),
          did_you_mean(flags.test, flags.subsets));
  std::vector<puzzles::Subset> subsets;
  for (const auto& name : flags.subsets)
    subsets.push_back({puzzles::read_subset(flags.tasks, name), name == flags.test});
  DataProgress drawing("variants");
  const auto recipe = puzzles::build_arc(subsets, options, drawing.shown());
  DataProgress writing("rows");
  puzzles::write_arc(flags.out, "arc", recipe, rows,
                     {{"subsets", flags.subsets},
                      {"test", flags.test},
                      {"variants", flags.variants},
                      {"seed", flags.seed},
                      {"dihedral", options.dihedral}},
                     writing.shown());
  print_arc(flags.out, recipe);
}

struct SudokuFlags {
  int size = 9, threads = 0;
  std::vector<int64_t> rounds = {20};
  int64_t clues = 0, train = 1000, test = 1000, shuffles = 1000, seed = 0;
  std::string rows = "made", out;
};

void make_sudokus(const SudokuFlags& flags) {
  require_new(flags.out);
  const auto rows = rows_of(flags.rows);
  require(flags.seed >= 0, "data", "--seed must be >= 0, got {}", flags.seed);
  require(flags.shuffles >= 0, "data", "--shuffles must be >= 0, got {}", flags.shuffles);
  const puzzles::SudokuOptions options{.size = flags.size,
                                       .rounds = flags.rounds,
                                       .clues = flags.clues,
                                       .seed = static_cast<uint64_t>(flags.seed),
                                       .threads = flags.threads};
  DataProgress drawing("puzzles");
  const auto set = puzzles::generate_sudokus(options, flags.train, flags.test, drawing.shown());
  DataProgress writing("rows");
  puzzles::write_sudokus(flags.out, flags.size, set, flags.shuffles, rows,
                         {{"rounds", flags.rounds},
                          {"clues", flags.clues},
                          {"shuffles", flags.shuffles},
                          {"seed", flags.seed}},
                         writing.shown());
  fmt::print("{}{}: {}\n", to_text(puzzles::sudoku_statistics(set)), flags.out,
             megabytes(flags.out));
}

struct MazeFlags {
  puzzles::MazeOptions options;
  int64_t train = 1000, test = 1000, seed = 0;
  bool dihedral = false;
  std::string out;
};

void make_mazes(const MazeFlags& flags) {
  require_new(flags.out);
  require(flags.seed >= 0, "data", "--seed must be >= 0, got {}", flags.seed);
  auto options = puzzles::complete(flags.options);
  options.seed = static_cast<uint64_t>(flags.seed);
  DataProgress drawing("mazes");
  const auto set = puzzles::generate_mazes(options, flags.train, flags.test, drawing.shown());
  puzzles::write_mazes(flags.out, options.size, set, flags.dihedral,
                       {{"loops", options.loops},
                        {"shortest", options.shortest},
                        {"dihedral", flags.dihedral},
                        {"seed", flags.seed}});
  fmt::print("{}{}: {}\n", to_text(puzzles::maze_statistics(set)), flags.out, megabytes(flags.out));
}

struct ReflectFlags {
  std::string tasks, selection = "strict", rows = "made", out;
  int64_t variants = 128, seed = 42, count = 200;
  int canvas = puzzles::kLargestGrid;
};

void make_reflect(const ReflectFlags& flags) {
  require_new(flags.out);
  const auto rows = rows_of(flags.rows);
  const std::vector<std::string> selections = {"published", "strict", "synthetic"};
  require(std::ranges::find(selections, flags.selection) != selections.end(), "data",
          "--selection must be published, strict or synthetic, got {}{}", quote(flags.selection),
          did_you_mean(flags.selection, selections));
  const bool published = flags.selection == "published";
  require(flags.selection == "synthetic" || !flags.tasks.empty(), "data",
          "--selection {} needs --tasks", flags.selection);
  const auto seed = numpy_seed(flags.seed);
  puzzles::ReflectChoice choice;
  if (flags.selection == "synthetic") {
    choice.candidates = choice.selected = puzzles::synthetic_tasks(flags.count, seed);
  } else {
    std::vector<puzzles::Task> tasks;
    for (const char* subset : {"training", "evaluation", "concept"})
      for (auto& task : puzzles::read_subset(flags.tasks, subset)) tasks.push_back(std::move(task));
    choice = published ? puzzles::choose_published(tasks, seed) : puzzles::choose_strict(tasks);
  }
  const puzzles::ArcOptions options{.variants = flags.variants,
                                    .seed = seed,
                                    .canvas = flags.canvas,
                                    .dihedral = published,
                                    .shuffle_tasks = false};
  const auto recipe = puzzles::build_reflect(choice.selected, !published, options);
  DataProgress writing("rows");
  puzzles::write_arc(flags.out, "reflect", recipe, rows,
                     {{"selection", flags.selection},
                      {"variants", flags.variants},
                      {"seed", flags.seed},
                      {"dihedral", published}},
                     writing.shown());
  for (const auto& line : puzzles::facts_about(choice)) fmt::print("{}\n", line);
  if (published)
    fmt::print(
        "Only tests of evaluation tasks are scored, and all eight orientations of every "
        "task are trained: a difference between the classes means little.\n");
  print_arc(flags.out, recipe);
}

// Adds a command with its flags and its function.
template <class Flags>
CLI::App* add_kind(CLI::App& data, int& exit_code, const char* name, const char* help,
                   const std::shared_ptr<Flags>& flags, void (*make)(const Flags&)) {
  auto* command = data.add_subcommand(name, help);
  command->add_option("--out", flags->out, "folder of the data set; must not exist")->required();
  command->callback([flags, make, &exit_code] {
    make(*flags);
    exit_code = 0;
  });
  return command;
}

void add_arc(CLI::App& data, int& exit_code) {
  auto flags = std::make_shared<ArcFlags>();
  auto* command = add_kind(
      data, exit_code, "arc",
      "ARC-AGI tasks with their variants: eight orientations, permuted colours. The defaults give\n"
      "the set of the Tiny Recursive Model bit for bit: 876,406 identifiers, 3,633,410 rows.\n"
      "Example: geores data arc --tasks arc-agi --out arc1",
      flags, make_arc);
  command
      ->add_option("--tasks", flags->tasks,
                   "folder with SUBSET_challenges.json and SUBSET_solutions.json")
      ->required();
  command->add_option("--subsets", flags->subsets, "in this order")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--test", flags->test, "the subset whose tests are held out")
      ->capture_default_str();
  command->add_option("--variants", flags->variants, "of each task, besides the original")
      ->capture_default_str();
  command->add_option("--canvas", flags->canvas, "side; tasks with a larger grid are left out")
      ->capture_default_str();
  command->add_flag("--no-dihedral", flags->no_dihedral, "variants differ in their colours only");
  command->add_option("--seed", flags->seed, "of NumPy's generator")->capture_default_str();
  command
      ->add_option("--rows", flags->rows,
                   "made: when they are needed (30 MB); stored: in files as published (6.5 GB)")
      ->capture_default_str();
}

void add_sudoku(CLI::App& data, int& exit_code) {
  auto flags = std::make_shared<SudokuFlags>();
  auto* command = add_kind(
      data, exit_code, "sudoku",
      "Sudokus with one solution, rated by how many values a solver has to try. 20 rounds are\n"
      "about as hard as Sudoku-Extreme.\n"
      "Example: geores data sudoku --size 9 --rounds 0,20 --test 2000 --out sudoku9",
      flags, make_sudokus);
  command->add_option("--size", flags->size, "4, 6 or 9")->capture_default_str();
  command
      ->add_option("--rounds", flags->rounds,
                   "of hardening; of several numbers the puzzles take one after the other")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--clues", flags->clues, "stop removing clues at so many; 0: minimal puzzles")
      ->capture_default_str();
  command->add_option("--train", flags->train, "puzzles to learn from")->capture_default_str();
  command->add_option("--test", flags->test, "puzzles to be tested on")->capture_default_str();
  command->add_option("--shuffles", flags->shuffles, "of each training puzzle")
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "")->capture_default_str();
  command
      ->add_option("--rows", flags->rows, "made: shuffled when they are needed; stored: in files")
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "0: one for each core")->capture_default_str();
}

void add_maze(CLI::App& data, int& exit_code) {
  auto flags = std::make_shared<MazeFlags>();
  auto* command = add_kind(data, exit_code, "maze",
                           "Mazes with one shortest path.\n"
                           "Example: geores data maze --size 30 --out maze30",
                           flags, make_mazes);
  command->add_option("--size", flags->options.size, "side, 5 to 60")->capture_default_str();
  command->add_option("--loops", flags->options.loops, "walls opened; -1: by size")
      ->capture_default_str();
  command->add_option("--shortest", flags->options.shortest, "least steps to the goal; -1: by size")
      ->capture_default_str();
  command->add_option("--train", flags->train, "mazes to learn from")->capture_default_str();
  command->add_option("--test", flags->test, "mazes to be tested on")->capture_default_str();
  command->add_flag("--dihedral", flags->dihedral, "train on all eight orientations");
  command->add_option("--seed", flags->seed, "")->capture_default_str();
  command->add_option("--threads", flags->options.threads, "0: one for each core")
      ->capture_default_str();
}

void add_reflect(CLI::App& data, int& exit_code) {
  auto flags = std::make_shared<ReflectFlags>();
  auto* command =
      add_kind(data, exit_code, "reflect",
               "ARC-Reflect-Lite: tasks that are reflections against tasks that are not.\n"
               "  published  the published selection, with notes on its flaws\n"
               "  strict     tasks that one class alone explains; all tests held out, colours "
               "permuted only\n"
               "  synthetic  random objects, enough tasks of both classes; otherwise as strict\n"
               "Example: geores data reflect --selection strict --tasks arc-agi --out reflect",
               flags, make_reflect);
  command->add_option("--selection", flags->selection, "published, strict or synthetic")
      ->capture_default_str();
  command->add_option("--tasks", flags->tasks, "folder of the ARC tasks, but for synthetic");
  command->add_option("--count", flags->count, "synthetic tasks of each class")
      ->capture_default_str();
  command->add_option("--variants", flags->variants, "of each task, besides the original")
      ->capture_default_str();
  command->add_option("--canvas", flags->canvas, "side; tasks with a larger grid are left out")
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "")->capture_default_str();
  command->add_option("--rows", flags->rows, "made or stored")->capture_default_str();
}

}  // namespace

void add_puzzle_data(CLI::App& app, int& exit_code) {
  // `geores data` has commands for other data as well; the first one creates it.
  const auto found =
      app.get_subcommands([](const CLI::App* command) { return command->get_name() == "data"; });
  auto* data = found.empty() ? app.add_subcommand("data", "Makes data sets and looks at them.")
                             : found.front();
  data->require_subcommand(1);
  add_arc(*data, exit_code);
  add_sudoku(*data, exit_code);
  add_maze(*data, exit_code);
  add_reflect(*data, exit_code);
  add_show_puzzles(*data, exit_code);
}

}  // namespace geores::cli
