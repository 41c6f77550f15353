// geores data puzzles: puzzles of a data set on the terminal or on a page.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/nearest.h"
#include "geores/puzzles/dataset.h"
#include "geores/puzzles/view/page.h"
#include "geores/puzzles/view/terminal.h"

namespace geores::cli {
namespace {

struct ShowFlags {
  std::string folder, split = "test", task, page, color = "auto";
  int64_t row = 0, count = 1;
};

void print_summary(const puzzles::Dataset& data, const std::string& folder) {
  const auto& info = data.info();
  fmt::print("{}: {}, canvas {} x {}, {} tokens, {} identifiers\n", folder, info.kind, info.height,
             info.width, info.vocabulary, info.identifiers);
  for (const char* name : {"train", "test"}) {
    const auto& split = name == std::string_view("train") ? data.train() : data.test();
    fmt::print("  {:5} {} rows, {} variants, {} groups\n", name, split.rows(), split.variants(),
               split.groups());
  }
}

// The first row of the task's original.
int64_t row_of_task(const puzzles::Dataset& data, const puzzles::Split& split,
                    const std::string& task, const std::string& where) {
  require(data.info().is_arc(), where, "a {} data set has no tasks with names; use --row",
          data.info().kind);
  std::vector<std::string> names;
  for (int64_t group = 0; group < split.groups(); ++group) {
    const auto variant = split.index().first_variant[static_cast<std::size_t>(group)];
    names.push_back(
        data.identifier_name(split.index().identifiers[static_cast<std::size_t>(variant)]));
    if (names.back() == task) return split.index().first_row[static_cast<std::size_t>(variant)];
  }
  fail(where, "has no task {} in this split{}", quote(task), did_you_mean(task, names));
}

puzzles::Solving solving_of(const puzzles::Dataset& data, const puzzles::Split& split, int64_t row,
                            const std::string& name) {
  const auto batch = split.batch(std::vector{row});
  const auto identifier = batch.identifiers[0];
  puzzles::Solving solving{
      .title = fmt::format("{} row {}", name, row), .input = batch.inputs, .label = batch.labels};
  if (identifier > 0) solving.title += ", " + data.identifier_name(identifier);
  if (const auto rating = split.rating(row); rating >= 0)
    solving.title += fmt::format(", rating {}", rating);
  if (data.info().is_arc()) {
    const auto& group = data.arc().groups[static_cast<std::size_t>(data.arc().group(identifier))];
    const auto& variant = data.arc().variant(identifier);
    for (const auto& pair : group.train)
      solving.demonstrations.push_back(
          {puzzles::apply(variant, pair.input), puzzles::apply(variant, pair.output)});
  }
  return solving;
}

void show(const ShowFlags& flags) {
  require(flags.split == "train" || flags.split == "test", "data",
          "--split must be train or test, got {}", quote(flags.split));
  require(flags.color == "auto" || flags.color == "always" || flags.color == "never", "data",
          "--color must be auto, always or never, got {}", quote(flags.color));
  require(flags.count >= 1, "data", "--count must be >= 1, got {}", flags.count);
  const auto data = puzzles::Dataset::open(flags.folder);
  const auto& split = flags.split == "train" ? data.train() : data.test();
  const auto first =
      flags.task.empty() ? flags.row : row_of_task(data, split, flags.task, flags.folder);
  require(first >= 0 && first < split.rows(), flags.folder, "row {} is not one of {} rows", first,
          split.rows());
  std::vector<puzzles::Solving> solvings;
  for (auto row = first; row < std::min(first + flags.count, split.rows()); ++row)
    solvings.push_back(solving_of(data, split, row, flags.split));
  if (!flags.page.empty()) {
    write_file_atomically(flags.page, puzzles::page_of(data.info(), flags.folder, solvings));
    fmt::print("{}: {} puzzles\n", flags.page, solvings.size());
    return;
  }
  const bool color =
      flags.color == "always" || (flags.color == "auto" && isatty(fileno(stdout)) != 0);
  print_summary(data, flags.folder);
  for (const auto& each : solvings)
    fmt::print("\n{}\n{}", each.title,
               puzzles::side_by_side({{"input", puzzles::draw(data.info(), each.input, color)},
                                      {"answer", puzzles::draw(data.info(), each.label, color)}}));
}

}  // namespace

void add_show_puzzles(CLI::App& data, int& exit_code) {
  auto flags = std::make_shared<ShowFlags>();
  auto* command = data.add_subcommand("puzzles",
                                      "Shows puzzles of a data set, in colour on a terminal.\n"
                                      "Example: geores data puzzles arc1 --task 00576224");
  command->add_option("folder", flags->folder, "a data set")->required();
  command->add_option("--split", flags->split, "train or test")->capture_default_str();
  command->add_option("--row", flags->row, "the first row to show")->capture_default_str();
  command->add_option("--task", flags->task, "ARC: the first row of this task");
  command->add_option("--count", flags->count, "how many rows")->capture_default_str();
  command->add_option("--page", flags->page, "write an HTML page instead");
  command->add_option("--color", flags->color, "auto, always or never")->capture_default_str();
  command->callback([flags, &exit_code] {
    show(*flags);
    exit_code = 0;
  });
}

}  // namespace geores::cli
