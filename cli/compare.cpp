#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/terminal/output.h"
#include "geores/base/file.h"
#include "geores/train/comparison.h"
#include "geores/train/run/version.h"

namespace geores::cli {
namespace {

struct CompareFlags {
  std::vector<std::string> runs;
  std::string page, cache;
  bool json = false;
};

void compare(const CompareFlags& flags) {
  const auto comparison = compare_runs(flags.runs, flags.cache);
  if (flags.json)
    fmt::print("{}\n", comparison.to_json().dump(2));
  else
    fmt::print("{}", to_text(comparison.table()));
  if (flags.page.empty()) return;
  auto page = comparison.page();
  // The pages that lie next to this one.
  const auto folder = std::filesystem::path(flags.page).parent_path();
  for (const auto& [file, name] : {std::pair{"explorer.html", "Explorer with these runs"},
                                   std::pair{"inspect.html", "Inspection"}})
    if (std::filesystem::exists(folder / file)) page.link(name, file);
  page.made_by(fmt::format("geores compare {} --page {} · {}", fmt::join(flags.runs, " "),
                           flags.page, version_and_commit()));
  write_file_atomically(flags.page, page.to_html());
  say("wrote {}\n", flags.page);
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<CompareFlags>();
  auto* command =
      app.add_subcommand("compare",
                         "Compare finished runs on the same data.\n"
                         "The table includes predictors that need no model. "
                         "The lowest loss of each column is marked with a *.\n"
                         "Example: geores compare runs/gpt runs/edelta --page comparison.html");
  command->add_option("runs", flags->runs, "folders of runs")->required();
  command->add_option("--page", flags->page, "write table and curves here (HTML, opens offline)");
  command->add_option("--cache", flags->cache, "folder for generated data");
  command->add_flag("--json", flags->json, "machine-readable result");
  command->callback([flags, &exit_code] {
    compare(*flags);
    exit_code = 0;
  });
}

}  // namespace geores::cli
