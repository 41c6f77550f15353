#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/terminal/output.h"
#include "cli/terminal/progress_bar.h"
#include "cli/terminal/stop_on_signal.h"
#include "geores/experiments/reproduce.h"

namespace geores::cli {
namespace {

struct ReproduceFlags {
  ReproduceOptions options;
  std::string scale = "quick";
  std::vector<int64_t> seeds;
  std::string shard;
};

void print_summary(const Findings& findings) {
  for (const auto& one : findings.judgements()) {
    const auto test = one.measured.known() ? fmt::format("p = {:.2g}", one.measured.p)
                                           : std::string("too few seeds to test");
    fmt::print("{:<9} {} ({:.2f} ×, {})\n", one.verdict, one.claim.text, one.measured_ratio, test);
  }
}

int run_reproduction(ReproduceFlags flags) {
  flags.options.scale = scale_from(flags.scale);
  flags.options.scale.chosen_seeds = flags.seeds;
  const auto start = std::chrono::steady_clock::now();
  auto bar = std::make_unique<ProgressBar>("training");
  ReproduceListener listener;
  listener.progress = [&](const JobProgress& progress) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    bar->show(progress.done, progress.total, elapsed.count(), progress.current);
  };
  listener.notice = [](const std::string& text) { say("geores: {}\n", text); };
  const StopOnSignal stop;
  listener.stop = StopOnSignal::requested;
  if (!flags.shard.empty()) {
    const bool done = reproduce_shard(flags.options, shard_from(flags.shard), listener);
    bar.reset();
    if (done)
      fmt::print(
          "shard {} is in {}; when all are done: geores reproduce --merge FOLDER ... --out "
          "OTHER, with the other flags as here\n",
          flags.shard, flags.options.out);
    else
      say("geores: stopped; the same command goes on from here\n");
    return done ? 0 : StopOnSignal::exit_code();
  }
  const auto findings = reproduce(flags.options, listener);
  bar.reset();
  if (!findings) {
    say("geores: stopped; the same command goes on from here\n");
    return StopOnSignal::exit_code();
  }
  print_summary(*findings);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  fmt::print("{} in {:.0f} s\n", (std::filesystem::path(flags.options.out) / "index.html").string(),
             elapsed.count());
  return 0;
}

}  // namespace

void add_reproduce(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ReproduceFlags>();
  auto& options = flags->options;
  auto* command = app.add_subcommand(
      "reproduce",
      fmt::format(
          "The EΔ paper's tables and figures, trained again and laid beside the published "
          "numbers,\n"
          "with trivial baselines, controls and t-tests. Writes OUT/index.html (opens offline),\n"
          "OUT/tables.md and OUT/results.json. Killed, it continues with what is missing when\n"
          "started again with the same --out.\n"
          "  quick   small models and data, minutes on two cores; not comparable with the paper\n"
          "  paper   as published: for a GPU, or days on a CPU\n"
          "Experiments for --only: {}.\n"
          "Examples:\n"
          "  geores reproduce --scale quick --out report\n"
          "  geores reproduce --scale paper --device cuda --precision bf16 --jobs 16 --out "
          "report-paper\n"
          "  geores reproduce --only theta reflection --out report-theta\n"
          "  geores reproduce --only start --out report-start     (not among all: past the paper)\n"
          "  geores reproduce --only start_maps --columns gyroscope near_pi --out report-maps\n"
          "  geores reproduce --only gate_weight --seeds 1 2 3 4 5 6 --out report-seeds\n"
          "Several machines without a network between them:\n"
          "  geores reproduce --shard 1/2 --out part1         (and 2/2 into part2 elsewhere)\n"
          "  geores reproduce --merge part1 part2 --out report",
          fmt::join(experiment_names(), ", ")));
  command->add_option("--scale", flags->scale, "quick or paper")->capture_default_str();
  command->add_option("--out", options.out, "folder of the report")->capture_default_str();
  command->add_option("--only", options.only, "some experiments instead of all");
  command->add_option("--columns", options.columns, "some data sets of the experiments in --only");
  command->add_option("--arms", options.arms, "some models of the experiments in --only");
  command->add_option("--seeds", flags->seeds,
                      "train with these instead of the paper's 42, 123 and 456");
  command->add_option("--jobs", options.jobs, "runs side by side")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  command->add_option("--device", options.hardware.device, "cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command
      ->add_option("--precision", options.hardware.precision,
                   "of products: fp32 or bf16, on a GPU also tf32")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "tf32", "bf16"}));
  command->add_option("--cache", options.cache, "folder for generated data");
  auto* shard = command->add_option("--shard", flags->shard,
                                    "i/N: do only the i-th of N parts, and write no report");
  command->add_option("--merge", options.merge, "folders of shards to take over what they have")
      ->excludes(shard);
  command->callback([flags, &exit_code] { exit_code = run_reproduction(*flags); });
}

}  // namespace geores::cli
