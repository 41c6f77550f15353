// Puts runs into the explorer's page: one file that opens without a server.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "geores/base/base64.h"
#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/formats/safetensors.h"
#include "geores/base/json.h"
#include "geores/train/run/run_folder.h"
#include "lab/diagnostics/inspect.h"

namespace geores::cli {
namespace {

namespace fs = std::filesystem;

struct ExploreFlags {
  std::vector<std::string> runs;
  std::string out = "explorer.html", page, cache;
};

// The page's empty block for runs; web/src/page.tsx writes it.
constexpr std::string_view kRunsBlock = R"(<script type="application/json" id="runs">)";

fs::path find_page(const std::string& given) {
  if (!given.empty()) return given;
  std::error_code ignored;
  const auto program = fs::read_symlink("/proc/self/exe", ignored);
  const auto above = program.parent_path().parent_path();
  // Installed: bin/geores. Built: build/PRESET/cli/geores, the page is in build/web.
  for (const auto& page :
       {above / "share/geores/explorer.html", above.parent_path() / "web/explorer.html"})
    if (fs::exists(page)) return page;
  fail("explore",
       "the page is not built: scripts/explore builds it, or a build with GEORES_EXPLORER=ON");
}

// Text that stays inside a script element.
std::string for_html(const nlohmann::json& value) {
  std::string text;
  for (const char c : value.dump()) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

void check_metrics(const std::string& text, const std::string& where) {
  std::size_t begin = 0, number = 0;
  while (begin < text.size()) {
    const auto end = text.find('\n', begin);
    if (end == text.npos) return;  // the last line of a run that was killed may be cut
    parse_json(text.substr(begin, end - begin), fmt::format("{} line {}", where, ++number));
    begin = end + 1;
  }
}

nlohmann::json inspection_of(const std::string& run, const std::string& cache) {
  const auto loaded = load_run(run, cache);
  loaded.config.task.require_sequences();
  const auto data = load_dataset(loaded.config.task, cache);
  return inspect(*loaded.model, data.validation_x.slice(0, 0, 8)).to_json();
}

nlohmann::json run_for_page(const std::string& run, const std::string& cache) {
  const fs::path folder = run;
  require(fs::is_directory(folder), run, "is not the folder of a run");
  const auto text_of = [&](const char* name) { return (folder / name).string(); };
  nlohmann::json files;
  const auto config = read_text_file(text_of("config.json"));
  parse_json(config, text_of("config.json"));
  files["config.json"] = config;
  if (fs::exists(folder / "result.json")) {
    const auto text = read_text_file(text_of("result.json"));
    parse_json(text, text_of("result.json"));
    files["result.json"] = text;
  }
  if (fs::exists(folder / "metrics.jsonl")) {
    const auto text = read_text_file(text_of("metrics.jsonl"));
    check_metrics(text, text_of("metrics.jsonl"));
    files["metrics.jsonl"] = text;
  }
  nlohmann::json result = {{"name", run}};
  const auto best = folder / "best.safetensors";
  if (fs::exists(best)) {
    const auto weights = Safetensors::load(best);
    files["inspection.json"] = inspection_of(run, cache).dump();
    // A token model's predictions are not shown live.
    if (!weights.contains("embedding")) result["weights"] = base64(read_file(best));
  }
  result["files"] = files;
  return result;
}

void explore(const ExploreFlags& flags) {
  const auto source = find_page(flags.page);
  auto page = read_text_file(source);
  const auto block = page.find(kRunsBlock);
  const auto begin = block + kRunsBlock.size();
  const auto end = block == page.npos ? page.npos : page.find("</script>", begin);
  require(end != page.npos && page.find(kRunsBlock, begin) == page.npos, source.string(),
          "has no block for runs: it is not the explorer's page");
  auto runs = nlohmann::json::array();
  for (const auto& run : flags.runs) runs.push_back(run_for_page(run, flags.cache));
  page.replace(begin, end - begin, for_html(runs));
  write_file_atomically(flags.out, page);
  fmt::print("{}: {} run{}, {:.1f} MB; open it in a browser\n", flags.out, runs.size(),
             runs.size() == 1 ? "" : "s", static_cast<double>(page.size()) / 1e6);
}

}  // namespace

void add_explore(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ExploreFlags>();
  auto* command = app.add_subcommand(
      "explore",
      "The explorer: an interactive page on these connections, with runs of yours in it.\n"
      "One file, no server. A run brings its curves, gates, an inspection and, unless it is a "
      "token\n"
      "model, its weights for live predictions.\n"
      "Example: geores explore --run runs/first --run runs/second --out explorer.html");
  command->add_option("--run", flags->runs, "folder of a run; may be given several times")
      ->expected(1)
      ->take_all();
  command->add_option("--out", flags->out, "the page to write")->capture_default_str();
  command->add_option("--page", flags->page, "the built page, where it is not found by itself");
  command->add_option("--cache", flags->cache, "folder for generated data");
  command->callback([flags, &exit_code] {
    explore(*flags);
    exit_code = 0;
  });
}

}  // namespace geores::cli
