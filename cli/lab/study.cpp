#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>

#include "cli/lab/lab.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/stop_on_signal.h"
#include "geores/base/error.h"
#include "geores/base/file.h"
#include "geores/base/json.h"
#include "geores/ops/run/execution.h"
#include "lab/experiments/studies/studies.h"

namespace geores::cli {
namespace {

struct StudyFlags {
  std::string name, scale = "paper", changes;
  StudyOptions options;
};

int run_puzzle_study(const StudyFlags& flags) {
  auto options = flags.options;
  if (!flags.changes.empty()) options.changes = parse_json(flags.changes, "--changes");
  const auto& full = find_study(flags.name);
  const auto study = flags.scale == "quick" ? quick_study(full) : full;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  auto bar = std::make_unique<ProgressBar>("training");
  const StopOnSignal stop;
  const auto results =
      run_study(study, options,
                {.progress =
                     [&](const JobProgress& progress) {
                       bar->show(progress.done, progress.total, seconds(), progress.current);
                     },
                 .notice = [](const std::string& text) { say("geores: {}\n", text); },
                 .stop = StopOnSignal::requested});
  bar.reset();
  if (!results) {
    say("geores: stopped; the same command goes on from here\n");
    return StopOnSignal::exit_code();
  }
  fmt::print("{}\n{}/index.html in {:.0f} s\n", read_text_file(options.out + "/tables.md"),
             options.out, seconds());
  return 0;
}

}  // namespace

void add_study(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<StudyFlags>();
  auto& options = flags->options;
  std::string names;
  for (const auto& study : puzzle_studies())
    names += fmt::format("  {:<5} {}\n", study.name, study.title);
  auto* command = app.add_subcommand(
      kStudy.name,
      std::string(kStudy.about) +
          "\nArms at the same width and number of parameters,\n"
          "several seeds, controls and t-tests. Makes its puzzles, trains what has no result yet, "
          "and\n"
          "writes OUT/index.html (tables and learning curves, opens offline), OUT/tables.md and\n"
          "OUT/results.json. Killed, it continues.\n" +
          names +
          "Examples:\n"
          "  geores study s6 --scale quick --out try\n"
          "  geores study s9 --device cuda --precision bf16 --jobs 4 --out s9\n"
          "  geores study s6 --arms none --seeds 1 --changes '{\"lr\": 3e-4}' --out pilot");
  command->add_option("name", flags->name, "which study")->required();
  command->add_option("--scale", flags->scale, "paper, or quick: minutes on two cores")
      ->check(CLI::IsMember({"paper", "quick"}))
      ->capture_default_str();
  command->add_option("--out", options.out, "folder of the study")->capture_default_str();
  command->add_option("--arms", options.arms,
                      "some arms instead of the usual ones; also cayley_exact and edelta_identity");
  command->add_option("--seeds", options.seeds, "instead of 1, 2 and 3");
  command->add_option("--tasks", options.arc_tasks, "a10 and a7: folder with ARC's JSON files");
  command->add_option("--changes", flags->changes, "options of all arms, as JSON: for pilots");
  command->add_option("--jobs", options.jobs, "runs side by side")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command->add_option("--device", options.hardware.device, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command
      ->add_option("--precision", options.hardware.precision,
                   "fp32, tf32, bf16, or bf16_state: the state in bfloat16, too")
      ->capture_default_str()
      ->check(CLI::IsMember(precision_names()));
  command->callback([flags, &exit_code] { exit_code = run_puzzle_study(*flags); });
}

}  // namespace geores::cli
